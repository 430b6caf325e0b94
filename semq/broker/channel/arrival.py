"""A large message being received on a channel: its bytes are passed to the store in chunks, or to a service.

A message that may not be published is refused at the content header, before its body arrives. A message for queues is
published when the store has saved its body. A service receives the bytes itself (``ServiceExchange.arriving``), gets
the complete body, or gets the message without its body (``drains``).
"""

from semq.amqp.content import ContentHeader
from semq.amqp.events import Published
from semq.amqp.methods import BasicPublish
from semq.broker import refusals
from semq.broker.channel.channel import BrokerChannel
from semq.broker.channel.publication import check_publish, publish
from semq.broker.queues.bodies import CHUNK, Body, StoredBody
from semq.broker.services import ArrivingDocument, ServiceExchange

# Reason of a pause
UNSTORED = "a service has not stored the bytes that have arrived"


class ArrivingBody:
    """One body being received."""

    def __init__(self, channel: BrokerChannel, method: BasicPublish, header: ContentHeader) -> None:
        """Check the content header. Raises AmqpError if the message may not be published to its exchange."""
        self._channel = channel
        self._method = method
        self._header = header
        self._pieces: list[bytes] = []
        self._gathered = 0  # bytes in ``_pieces``
        self._index = 0  # number of the next chunk
        self._body_id = 0  # 0 for a message to a service, whose body is not stored by the broker
        self._failure: BaseException | None = None  # of a chunk
        self._is_drained = False  # whether the body is dropped, because the service gets the message without it
        self._document: ArrivingDocument | None = None
        exchange, limit = check_publish(channel, self._event(b"")), channel.session.server.message_max
        if isinstance(exchange, ServiceExchange):
            limit = exchange.body_max if exchange.drains or exchange.streams else limit
            self._is_drained = exchange.drains and header.body_size > limit
        if header.body_size > limit and not self._is_drained:
            raise refusals.body_too_large(header.body_size, limit, exchange.name)
        if not isinstance(exchange, ServiceExchange):
            self._body_id = channel.session.server.bodies.new_id()
        elif not self._is_drained:
            info = channel.session.info
            self._document = exchange.arriving(info, method.routing_key, header, self._set_paused)

    def add(self, data: bytes) -> None:
        if self._is_drained:
            return
        if self._document is not None:
            self._document.add(data)
            return
        self._pieces.append(data)
        self._gathered += len(data)
        while self._body_id and self._gathered >= CHUNK:
            joined = b"".join(self._pieces)
            self._write(joined[:CHUNK])
            self._pieces = [joined[CHUNK:]]
            self._gathered -= CHUNK

    def finish(self) -> None:
        """Publish the message: to a service at once, to queues when the store has saved the body."""
        if self._document is not None:
            publish(self._channel, self._event(self._document))
            return
        if not self._body_id:
            publish(self._channel, self._event(b"".join(self._pieces)))
            return
        if self._gathered:
            self._write(b"".join(self._pieces))
        self._channel.hold()
        self._channel.session.journal.when_saved(self._saved)

    def abandon(self) -> None:
        """Discard the part that has arrived."""
        if self._body_id:
            self._channel.session.server.bodies.drop(self._body_id)
        if self._document is not None:
            self._document.abandon()

    def _set_paused(self, is_paused: bool) -> None:
        self._channel.session.allowance.set_paused(UNSTORED, is_paused)

    def _write(self, chunk: bytes) -> None:
        session = self._channel.session
        session.server.bodies.add(self._body_id, self._index, chunk)
        self._index += 1
        session.allowance.begin_publish(len(chunk))
        session.journal.confirm_when_saved(self, 0, len(chunk))

    def saved(self, sequence: int, size: int, error: BaseException | None) -> None:
        """Note that the store has saved a chunk, or has failed."""
        self._channel.session.allowance.end_publish(size)
        self._failure = self._failure or error

    def _saved(self, error: BaseException | None) -> None:
        channel, error = self._channel, self._failure or error
        if not channel.is_open or channel.is_stopped or error is not None:
            self.abandon()
            if error is not None and channel.is_open and not channel.is_stopped:
                channel.session.fail_channel(channel, refusals.not_stored(error))
            return
        body = StoredBody(channel.session.server.bodies, self._body_id, self._header.body_size)
        channel.session.publish_arrived(channel, self._event(body))
        channel.release()

    def _event(self, body: Body) -> Published:
        method = self._method
        return Published(
            self._channel.number,
            method.exchange,
            method.routing_key,
            method.mandatory,
            method.immediate,
            self._header,
            body,  # type: ignore[arg-type] # ``Published.body`` is bytes: the state machine makes no other bodies
        )
