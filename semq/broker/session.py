"""One client connection: turns the events of its state machine into work on channels and the virtual host.

An AMQP error raised by the work closes the channel or the connection, with class and method of the request.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from semq.amqp import events as e
from semq.amqp.connection.server import ServerConnection
from semq.amqp.errors import AmqpError, ChannelException, ConnectionForced, InternalError, LocalMisuse
from semq.broker import refusals
from semq.broker.allowance import Allowance
from semq.broker.channel.channel import BrokerChannel
from semq.broker.channel.ports import ChannelConsumer, ConnectedChannel
from semq.broker.channel.requests import HANDLERS, cause, cost, produces_output
from semq.broker.channel.settlements import Settlements
from semq.broker.login import Login
from semq.broker.ports import SessionServer
from semq.broker.queues.bodies import release
from semq.broker.queues.queue import Queue
from semq.broker.services import SessionInfo
from semq.broker.users import Permissions, Right
from semq.broker.vhost import VirtualHost
from semq.store.work import LATER_S
from semq.transport.link import SocketLink

log = logging.getLogger(__name__)

_RIGHTS_CACHE_MAX = 4096
CONFIRMS_WAITING_MAX = 64  # a sender's window must not close because of them


class BrokerSession:
    """One connection. ``info``: its description for services. ``info`` and ``vhost`` exist from ``open`` on."""

    info: SessionInfo
    vhost: VirtualHost
    link: SocketLink
    allowance: Allowance

    def __init__(self, server: SessionServer, machine: ServerConnection) -> None:
        self.server = server
        self.machine = machine
        self.limits = server.limits
        self.clock = server.clock
        self.journal = server.journal
        self.settlements = Settlements(server.turn)
        self.user = ""
        self.channels: dict[int, BrokerChannel] = {}
        self.exclusive_queues: dict[Queue, None] = {}
        self.is_open = False
        self.is_ending = False
        self.is_writable = True
        self.published = 0
        self.delivered = 0
        self.login: Login = Login(self)
        self._is_publisher = False
        self._is_blocked = False
        self._permissions = Permissions("", "", "")
        self._allowed: set[tuple[Right, str]] = set()
        self._stalled: dict[BrokerChannel, None] = {}  # channels whose requests wait until the client reads
        self._confirming: dict[ConnectedChannel, None] = {}
        self._confirms_waiting = 0  # confirms that may wait for other output
        self._confirms_timer: asyncio.TimerHandle | None = None
        self.feeding: dict[ConnectedChannel, None] = {}  # channels that send a large body
        self._notices: list[tuple[int, str]] = []  # delayed notices of cancelled consumers
        self._delays = 0  # number of replies to be sent before the notices
        self._feeds_first = False  # whether large bodies were served first the last time
        self._consumers_in_turn: dict[ChannelConsumer, None] = {}  # the consumer served last is at the end
        self._conclusion: Callable[[], None] | None = None  # ends the connection when no channel is left

    # From the link.

    def link_made(self, link: SocketLink) -> None:
        self.link = link
        if link.peer.certificate is None:
            # Do not offer EXTERNAL: a client that tries only one mechanism might try this one, and would be refused.
            self.machine.mechanisms = tuple(name for name in self.machine.mechanisms if name != "EXTERNAL")
        self.allowance = Allowance(self.limits, link)
        self.server.sessions[self] = None
        log.debug("connection from %s", link.peer)

    def process(self, events: list[e.ConnectionEvent]) -> None:
        for event in events:
            if not self.is_ending:
                self._process(event)
        self.settlements.flush()

    def flushed(self) -> None:
        """Continue output after a write, unless the peer reads too slowly."""
        if not self.is_writable and self.link.is_writable:
            self.writable(True)

    def writable(self, is_writable: bool) -> None:
        """Note that the peer has read the output (True), or reads too slowly (False)."""
        self.is_writable = is_writable and not self.is_ending
        if self.is_writable:
            self.resume_consumers()

    def link_lost(self, error: Exception | None) -> None:
        if not self.is_ending:
            log.info("connection of %s from %s lost: %s", self.user or "?", self.link.peer, error or "end of stream")
        self._end()
        self.server.forget(self)

    # Output.

    def request_write(self) -> None:
        self.link.request_write()
        if self._confirming:
            self.server.turn.before_flush(self._write_confirms)

    def content_queued(self) -> None:
        """Request a write of queued content; stop output while much of it waits."""
        self.request_write()
        if self.machine.output_size > self.limits.output_bytes:
            self.is_writable = False

    def cancel_consumer(self, number: int, tag: str) -> None:
        """Notify the client that a consumer has ended, if the client supports these notices."""
        if self.is_ending:
            return
        if self._delays:
            self._notices.append((number, tag))
            return
        try:
            self.machine.cancel_consumer(number, tag)
        except LocalMisuse:
            return  # the peer has closed the channel
        self.request_write()

    def delay_notices(self) -> None:
        """Delay notices of cancelled consumers: as with RabbitMQ, they follow queue.delete-ok."""
        self._delays += 1

    def send_notices(self) -> None:
        self._delays -= 1
        if not self._delays:
            notices, self._notices = self._notices, []
            for number, tag in notices:
                self.cancel_consumer(number, tag)

    # Events.

    def _process(self, event: e.ConnectionEvent) -> None:
        try:
            handler = HANDLERS.get(type(event))
            if handler is not None:
                self._on_channel(event, handler)
            elif (connection_handler := _CONNECTION_HANDLERS.get(type(event))) is not None:
                connection_handler(self, event)
        except Exception:
            log.exception("could not serve %s of %s from %s", type(event).__name__, self.user, self.link.peer)
            self.close(InternalError("an internal error occurred; the log of the server has the details"))

    def _on_channel(self, event: Any, handler: Callable[[BrokerChannel, object], None]) -> None:
        channel = self.channels.get(event.channel)
        if channel is None:
            return  # this side has closed it
        if type(event) is e.ChannelClosed:
            channel.stop_feeding()  # the client ignores the rest of a body
            if channel.is_stopped:
                self.end_if_answered(channel)  # its end may have waited for that body
        if channel.is_stopped:
            return
        if channel.held is None and not self.is_writable and produces_output(event):
            channel.hold()
            self._stalled[channel] = None
        if channel.held is not None:
            channel.held.append(event)
            self.allowance.change_held(cost(event))
            return
        self._handle(channel, event, handler)

    def _handle(
        self, channel: ConnectedChannel, event: e.ConnectionEvent, handler: Callable[[Any, object], None]
    ) -> None:
        try:
            handler(channel, event)
        except AmqpError as error:
            of_event = refusals.of_message(error) if isinstance(event, e.Published | e.ContentStarted) else error
            self.fail_channel(channel, of_event.at(*cause(event)))
        if self.vhost.has_dead_letters:
            self.vhost.route_dead_letters()

    def publish_arrived(self, channel: ConnectedChannel, event: e.Published) -> None:
        self._handle(channel, event, HANDLERS[e.Published])
        release(event.body)

    def resume_events(self, channel: ConnectedChannel, waiting: "deque[e.ConnectionEvent]") -> None:
        """Process the waiting events of a channel."""
        self.allowance.change_held(-sum(map(cost, waiting)))
        while waiting and channel.is_open and channel.held is None:
            self._process(waiting.popleft())
        if channel.held is not None:
            channel.held.extendleft(reversed(waiting))
            self.allowance.change_held(sum(map(cost, waiting)))
        self.settlements.flush()

    def _channel_opened(self, event: e.ChannelOpened) -> None:
        self.channels[event.channel] = BrokerChannel(self, event.channel)

    def _close_requested(self, event: e.CloseRequested) -> None:
        """Answer connection.close when every channel has answered what came before."""
        self._log_end(event.error)
        self._conclude(self._accept_close)

    def _accept_close(self) -> None:
        self.machine.accept_close()
        self.request_write()
        self._end()

    def _connection_failed(self, event: e.ConnectionFailed) -> None:
        self._log_end(event.error)
        self._close_in_turn(event.error)

    def _close_in_turn(self, error: AmqpError) -> None:
        """Close because of an error of the client, when every channel has answered what came before."""
        self.machine.fail(error)
        self._conclude(lambda: self.close(error))

    def _conclude(self, conclusion: Callable[[], None]) -> None:
        self._conclusion = self._conclusion or conclusion
        for channel in list(self.channels.values()):
            if channel.is_stopped:
                self.end_if_answered(channel)
            else:
                self._process(e.ChannelClosed(channel.number, True, None))
        self._conclude_if_possible()

    def _conclude_if_possible(self) -> None:
        if self._conclusion is not None and not self.channels and not self.is_ending:
            self._conclusion()

    def _connection_over(self, event: e.ConnectionClosed) -> None:
        self._log_end(event.error)
        self._end()

    def _log_end(self, error: AmqpError | None) -> None:
        if error is not None and error.reply_code:  # some clients close in an orderly way with reply code 0
            log.warning("connection of %s from %s: %s", self.user or "?", self.link.peer, error)

    # Beginning and end.

    def open(self, vhost: VirtualHost, permissions: Permissions) -> None:
        self.vhost = vhost
        self._permissions = permissions
        self.info = SessionInfo(
            self.user, self.link.peer, vhost.name, self.login.client_properties, self.clock.wall(), self.close,
            lambda: self.link.unsent,
        )  # fmt: skip
        try:
            self.machine.accept_open()
        except LocalMisuse:
            return  # the client has closed the connection; that event follows
        self.request_write()
        self.is_open = True
        log.info("%s from %s opened %s", self.user, self.link.peer, vhost.name)
        for hooks in vhost.hooks:
            hooks.on_open(self.info)

    def force_close(self, text: str) -> None:
        self.close(ConnectionForced(text))

    def close(self, error: AmqpError) -> None:
        if not self.is_ending:
            self.machine.connection_error(error)
            self.request_write()
            self._end()

    def fail_channel(self, channel: ConnectedChannel, error: AmqpError) -> None:
        """Close the channel whose request failed; the connection if the error is no ChannelException.

        The close follows the outcomes of everything that was published before; nothing after it is processed.
        """
        if not isinstance(error, ChannelException):
            log.warning("closing the connection of %s from %s: %s", self.user, self.link.peer, error)
            channel.stop()
            self._close_in_turn(error)
        elif channel.is_open and channel.failure is None:
            log.info("closing channel %d of %s from %s: %s", channel.number, self.user, self.link.peer, error)
            channel.failure = error
            channel.stop()
            self.end_if_answered(channel)

    def end_if_answered(self, channel: ConnectedChannel) -> None:
        """End a stopped channel if every publish has its outcome."""
        channel.publications.end()
        if not channel.is_open or channel.unanswered or self.is_ending:
            return
        if channel.feeder is not None and self._conclusion is None:
            # The close is sent after the body, so end the channel when the body is complete.
            channel.feeder.end_with(lambda: self.end_if_answered(channel))
            return
        channel.write_confirms()
        if channel.failure is not None:
            self.machine.channel_error(channel.number, channel.failure)
        else:
            self.machine.accept_channel_close(channel.number)
        self.request_write()
        self._end_channel(channel)
        self._conclude_if_possible()

    def _end_channel(self, channel: ConnectedChannel) -> None:
        self.channels.pop(channel.number, None)
        if channel.held:
            self.allowance.change_held(-sum(map(cost, channel.held)))
        channel.end()
        self.vhost.route_dead_letters()

    def _end(self) -> None:
        self.is_ending = True
        self.is_writable = False
        self.link.resume_for_close()
        if not self.is_open:
            return
        self.is_open = False
        for channel in list(self.channels.values()):
            self._end_channel(channel)
        for queue in list(self.exclusive_queues):
            self.vhost.remove_queue(queue)
        self.exclusive_queues.clear()
        self.settlements.flush()
        for hooks in self.vhost.hooks:
            hooks.on_close(self.info)

    # Permissions.

    def require(self, right: Right, kind: str, name: str) -> None:
        """Raise AccessRefused unless the user has the right over ``name``."""
        if (right, name) in self._allowed:
            return
        if not self._permissions.allow(right, name):
            raise refusals.forbidden(kind, name, self.vhost.name, self.user)
        if len(self._allowed) >= _RIGHTS_CACHE_MAX:
            self._allowed.clear()
        self._allowed.add((right, name))

    def apply_permissions(self, permissions: Permissions | None) -> bool:
        """Apply changed permissions; None: no access. Return False if the connection must end: the user has no
        access, or may not read the queue of a consumer.
        """
        if permissions == self._permissions:
            return True
        self._permissions = permissions or Permissions("", "", "")
        self._allowed.clear()
        consumers = (consumer for channel in self.channels.values() for consumer in channel.consumers.values())
        return permissions is not None and all(
            consumer is consumer.channel.reply_consumer or permissions.allow(Right.READ, consumer.source.name)
            for consumer in consumers
        )

    # Consumers.

    def add_consumer(self, consumer: ChannelConsumer) -> None:
        self._consumers_in_turn[consumer] = None

    def remove_consumer(self, consumer: ChannelConsumer) -> None:
        self._consumers_in_turn.pop(consumer, None)

    def resume_consumers(self) -> None:
        """Continue requests, large bodies and deliveries when output or unacknowledged deliveries have decreased."""
        stalled, self._stalled = self._stalled, {}
        for channel in stalled:
            channel.release()
        self.allowance.was_full = False
        # Large bodies and other deliveries take turns: the first to be served may fill the output.
        self._feeds_first = not self._feeds_first
        for serve in (self._feed, self._pump) if self._feeds_first else (self._pump, self._feed):
            serve()
        self.vhost.route_dead_letters()

    def _feed(self) -> None:
        for channel in list(self.feeding):
            if channel.feeder is not None:
                channel.feeder.continue_sending()

    def _pump(self) -> None:
        """Resume consumers that had no room for deliveries."""
        for consumer in list(self._consumers_in_turn):
            if not self.is_writable:
                break  # next time, the other consumers are first (AMQP 4.3: channels are served evenly)
            if consumer.is_set_aside:
                self._consumers_in_turn.pop(consumer, None)
                self._consumers_in_turn[consumer] = None
                consumer.resume()

    # Confirms.

    def note_confirms(self, channel: ConnectedChannel, *, may_wait: bool) -> None:
        """Write confirms at the end of the turn. If they ``may_wait``, they share the next write, because a peer that
        waits for something else would be woken twice."""
        self._confirming[channel] = None
        self._confirms_waiting += may_wait
        if not may_wait or self._confirms_waiting >= CONFIRMS_WAITING_MAX:
            self.server.turn.before_flush(self._write_confirms)
        elif self._confirms_timer is None:
            self._confirms_timer = asyncio.get_running_loop().call_later(LATER_S, self._write_confirms)

    def _write_confirms(self) -> None:
        if self._confirms_timer is not None:
            self._confirms_timer.cancel()
            self._confirms_timer = None
        self._confirms_waiting = 0
        confirming, self._confirming = self._confirming, {}
        if not self.is_ending:
            for channel in confirming:
                channel.write_confirms()

    # Blocking.

    def note_published(self) -> None:
        """Mark this client as a publisher, to be blocked while the broker has a shortage."""
        self._is_publisher = True
        if self.server.alarm is not None:
            self.block(self.server.alarm)

    def block(self, reason: str) -> None:
        """Notify a publisher of a shortage, and stop reading."""
        if self._is_publisher and not self._is_blocked and not self.is_ending:
            self._is_blocked = True
            self.machine.block(reason)
            self.request_write()
            self.link.pause_reading("alarm")

    def unblock(self) -> None:
        if self._is_blocked and not self.is_ending:
            self._is_blocked = False
            self.machine.unblock()
            self.request_write()
            self.link.resume_reading("alarm")

    # Direct reply-to.

    def find_reply_target(self, address: str) -> ConnectedChannel | None:
        """Return the channel that waits for replies under this address; None without one in the virtual host."""
        return self.server.reply_targets.find(self.vhost, address)


_CONNECTION_HANDLERS: dict[type[e.ConnectionEvent], Callable[[BrokerSession, Any], None]] = {
    e.LoginOffered: lambda session, event: session.login.process_offer(event),
    e.OpenRequested: lambda session, event: session.login.process_open(event),
    e.SecretOffered: lambda session, event: session.login.accept_secret_offer(event),
    e.ChannelOpened: BrokerSession._channel_opened,
    e.CloseRequested: BrokerSession._close_requested,
    e.ConnectionFailed: BrokerSession._connection_failed,
    e.ConnectionClosed: BrokerSession._connection_over,
}
