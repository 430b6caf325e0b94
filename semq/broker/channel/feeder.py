"""A large message being sent on a channel: read from the store chunk by chunk, as fast as the client reads it.

At most two chunks are in memory. Meanwhile the channel processes nothing else, because contents and methods of one
channel must not be mixed (AMQP 0-9-1, 4.2.6); other channels are served between two chunks.
"""

import logging
from collections.abc import Callable

from semq.amqp.errors import InternalError, LocalMisuse
from semq.broker.channel.ports import ConnectedChannel
from semq.broker.queues.bodies import LargeBody

log = logging.getLogger(__name__)


class Feeder:
    """One body being sent."""

    def __init__(self, channel: ConnectedChannel, body: LargeBody) -> None:
        self._channel = channel
        self._body = body
        self._chunks_requested = 0
        self._chunks_sent = 0
        self._is_reading = False
        self._next: bytes | None = None  # chunk that has been read and not sent yet
        self._on_end: Callable[[], None] = lambda: None
        body.retain()

    def continue_sending(self) -> None:
        """Send the chunk that is available, if there is room for it, and read the next."""
        channel = self._channel
        if not (channel.session.is_writable and channel.is_open):
            return
        data, self._next = self._next, None
        if self._chunks_requested < self._body.chunk_count and not self._is_reading:
            self._is_reading = True
            self._chunks_requested += 1
            self._body.read(self._chunks_requested - 1, self._chunk_read)
        if data is not None:
            self._send(data)

    def end_with(self, then: Callable[[], None]) -> None:
        self._on_end = then

    def cancel(self) -> None:
        self._body.release()

    def _chunk_read(self, data: bytes | None, error: BaseException | None) -> None:
        self._is_reading = False
        channel = self._channel
        if not channel.is_open or channel.feeder is not self:
            return
        if data is None:
            log.error("a body could not be read from the store: %s", error)
            channel.session.close(InternalError("a message could not be read from the store"))
            return
        self._next = data
        self.continue_sending()

    def _send(self, data: bytes) -> None:
        channel = self._channel
        try:
            channel.session.machine.send_chunk(channel.number, data)
        except LocalMisuse:
            return  # the peer has closed the channel; that event has not been processed yet
        session = channel.session
        session.content_queued()
        del session.feeding[channel]  # the other channels are first next time
        session.feeding[channel] = None
        self._chunks_sent += 1
        if self._chunks_sent == self._body.chunk_count:
            self._body.release()
            channel.finish_feeding(self._on_end)
