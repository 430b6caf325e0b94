"""One client connection: hears the events of its state machine and turns them into work on channels and the virtual
host.

The session owns a ``ServerConnection`` and knows no socket: ``Link`` feeds it, ``server`` supplies what sessions
share. An error raised by the work ends the channel or the connection that caused it, with class and method of the
request; neighbours do not notice. Counts what this client has in hand and out, so that reading from it, or writing to
it, pauses in time.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from semq.amqp import events as e
from semq.amqp import sasl
from semq.amqp.errors import AmqpError, ChannelException, ConnectionForced, NotAllowed
from semq.amqp.server import ServerConnection
from semq.broker import refusals
from semq.broker.channel import Channel, Consumer, Source
from semq.broker.commands import DEFINITIONS
from semq.broker.consuming import MESSAGES
from semq.broker.publishing import publish
from semq.broker.queue import Disposition, Queue
from semq.broker.services import ServiceQueue, SessionInfo
from semq.broker.users import Permissions, Right
from semq.broker.vhost import VirtualHost
from semq.transport.link import Link

if TYPE_CHECKING:
    from semq.broker.server import AmqpServer

log = logging.getLogger(__name__)

_REQUESTS = {**DEFINITIONS, **MESSAGES}
_Gathered: TypeAlias = tuple[ServiceQueue, "Consumer | None", Disposition]
_RIGHTS_CACHE_MAX = 4096


class Session:
    """One connection. ``info`` is what services see of it; it is there once the virtual host is open."""

    info: SessionInfo
    vhost: VirtualHost

    def __init__(self, server: "AmqpServer", machine: ServerConnection) -> None:
        self.server = server
        self.machine = machine
        self.limits = server.limits
        self.clock = server.clock
        self.journal = server.journal
        self.user = ""
        self.channels: dict[int, Channel] = {}
        self.exclusive_queues: dict[Queue, None] = {}
        self.is_open = False
        self.is_ending = False
        self.is_writable = True
        self.is_publisher = False
        self.was_full_of_unacked = False
        self.unacked_count = 0
        self.unacked_bytes = 0
        self.published = 0
        self.delivered = 0
        self._mechanism = ""
        self._client_properties: Any = {}
        self._permissions = Permissions("", "", "")
        self._allowed: set[tuple[Right, str]] = set()
        self._in_hand_bytes = 0
        self._in_hand_count = 0
        self._is_blocked = False
        self._held_events = 0
        self._confirming: dict[Channel, None] = {}
        self._gathered: dict[_Gathered, list[Any]] = {}
        self._link: Link | None = None

    # From the link.

    def link_made(self, link: Link) -> None:
        self._link = link
        log.debug("connection from %s", link.peer)

    @property
    def link(self) -> Link:
        assert self._link is not None, "a session is heard of only through its link"
        return self._link

    def heard(self, events: list[e.Event]) -> None:
        """What one read brought."""
        for event in events:
            if self.is_ending and type(event) is not e.ConnectionClosed:
                continue
            self._hear(event)
        self.hand_over_gathered()

    def flushed(self) -> None:
        """What was produced has been written; more may be produced unless the peer is slow."""
        if not self.is_writable and self.link.is_writable:
            self.is_writable = True
            self.wake_consumers()

    def writable(self, is_writable: bool) -> None:
        self.is_writable = is_writable
        if is_writable:
            self.wake_consumers()

    def link_lost(self, error: Exception | None) -> None:
        if not self.is_ending:
            log.info("connection of %s from %s is gone: %s", self.user or "?", self.link.peer, error or "end of stream")
        self._end()
        self.server.forget(self)

    def say_goodbye(self, text: str) -> None:
        """The node is stopping."""
        self.close(ConnectionForced(text))

    # Output.

    def touch(self) -> None:
        """There is output."""
        self.link.touch()

    def wrote(self) -> None:
        """There is content in the output; stop producing when it becomes much."""
        self.link.touch()
        if self.machine.output_size > self.limits.output_bytes:
            self.is_writable = False

    def close(self, error: AmqpError) -> None:
        """End the connection from this side."""
        if not self.is_ending:
            self.machine.connection_error(error)
            self.touch()
            self._end()

    def fail_channel(self, channel: Channel, error: AmqpError) -> None:
        """A request could not be served: end its channel, or the connection if the error is a hard one."""
        if not isinstance(error, ChannelException):
            log.warning("closing the connection of %s from %s: %s", self.user, self.link.peer, error)
            self.close(error)
            return
        log.info("closing channel %d of %s from %s: %s", channel.number, self.user, self.link.peer, error)
        if channel.is_open:
            channel.write_confirms()
            self.machine.channel_error(channel.number, error)
            self.touch()
            self._end_channel(channel)

    def cancel_consumer(self, number: int, tag: str) -> None:
        """Tell the client that a consumer has ended, if it understands that."""
        if not self.is_ending:
            self.machine.cancel_consumer(number, tag)
            self.touch()

    # Events.

    def _hear(self, event: e.Event) -> None:
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)
        vhost = getattr(self, "vhost", None)
        if vhost is not None and vhost.has_dead:
            vhost.bury_dead()

    def _on_channel(self, event: Any) -> None:
        channel = self.channels.get(event.channel)
        if channel is None:
            return  # closed by us while this was on its way
        if channel.held is not None:
            channel.held.append(event)
            self._count_held(1)
            return
        try:
            _CHANNEL_HANDLERS[type(event)](channel, event)
        except AmqpError as error:
            self.fail_channel(channel, error.at(*_cause(event)))

    def resume_events(self, channel: Channel, waiting: "deque[e.Event]") -> None:
        """A channel goes on with what has waited."""
        while waiting and channel.is_open and channel.held is None:
            self._count_held(-1)
            self._on_channel(waiting.popleft())
        if waiting and channel.held is not None:
            channel.held.extendleft(reversed(waiting))
        else:
            self._count_held(-len(waiting))
        self.vhost.bury_dead()
        self.hand_over_gathered()

    def _count_held(self, change: int) -> None:
        self._held_events += change
        if self._held_events >= self.limits.held_events:
            self.link.pause_reading("held")
        elif self._held_events <= self.limits.held_events // 2:
            self.link.resume_reading("held")

    def _login_offered(self, event: e.LoginOffered) -> None:
        self._mechanism = event.mechanism
        self._client_properties = event.client_properties
        try:
            credentials = sasl.read(event.mechanism, event.response)
        except AmqpError as error:
            self._refuse(error.at(10, 11))
            return
        self.server.authenticate(self, event.mechanism, credentials, self._login_answered)

    def _login_answered(self, user: str | None) -> None:
        if self.is_ending:
            return
        if user is None:
            log.warning("login refused: %s from %s", self._mechanism, self.link.peer)
            self._pass_on_closing(refusals.login_refused(self._mechanism).text)
            return
        self.user = user
        self.machine.accept_login()
        self.touch()

    def _pass_on_closing(self, text: str) -> None:
        self.link.hold_back()
        self.machine.refuse_login(text)
        self.is_ending = True
        self.touch()

    def _open_requested(self, event: e.OpenRequested) -> None:
        name = event.virtual_host
        vhost = self.server.vhosts.get(name)
        permissions = self.server.authenticator.permissions(self.user, name)
        if vhost is None:
            self._refuse(refusals.no_vhost(name).at(10, 40))
        elif permissions is None:
            self._refuse(refusals.vhost_forbidden(name, self.user).at(10, 40))
        else:
            self._open(vhost, permissions)

    def _refuse(self, error: AmqpError) -> None:
        self.link.hold_back()
        self.close(error)

    def _open(self, vhost: VirtualHost, permissions: Permissions) -> None:
        self.vhost = vhost
        self._permissions = permissions
        self.info = SessionInfo(
            self.user, self.link.peer, vhost.name, self._client_properties, self.clock.wall(), self.close
        )
        self.machine.accept_open()
        self.touch()
        self.is_open = True
        log.info("%s from %s opened %s", self.user, self.link.peer, vhost.name)
        for hooks in vhost.hooks:
            hooks.on_open(self.info)

    def _secret_offered(self, event: e.SecretOffered) -> None:
        credentials = sasl.Credentials(self.user, event.new_secret)

        def answered(user: str | None) -> None:
            if self.is_ending:
                return
            if user is None:
                self.close(NotAllowed("the new secret was not accepted").at(10, 70))
                return
            self.machine.accept_secret()
            self.touch()

        self.server.authenticate(self, self._mechanism, credentials, answered)

    def _channel_opened(self, event: e.ChannelOpened) -> None:
        self.channels[event.channel] = Channel(self, event.channel)

    def _channel_closed(self, event: e.ChannelClosed) -> None:
        channel = self.channels.get(event.channel)
        if channel is not None:
            self._end_channel(channel)

    def _connection_over(self, event: "e.ConnectionFailed | e.ConnectionClosed") -> None:
        if event.error is not None and not self.is_ending:
            log.warning("connection of %s from %s: %s", self.user or "?", self.link.peer, event.error)
        self._end()

    # Ends.

    def _end_channel(self, channel: Channel) -> None:
        self.channels.pop(channel.number, None)
        if channel.held:
            self._count_held(-len(channel.held))
        channel.end()
        self.vhost.bury_dead()

    def _end(self) -> None:
        if self.is_ending and not self.is_open:
            return
        self.is_ending = True
        self.is_writable = False
        if not self.is_open:
            return
        self.is_open = False
        for channel in list(self.channels.values()):
            self._end_channel(channel)
        for queue in list(self.exclusive_queues):
            self.vhost.remove_queue(queue)
        self.exclusive_queues.clear()
        self.hand_over_gathered()
        for hooks in self.vhost.hooks:
            hooks.on_close(self.info)

    # Permissions.

    def require(self, right: Right, kind: str, name: str) -> None:
        """Raises AccessRefused unless the user has the right over this name. Answers are remembered for the
        connection."""
        if (right, name) in self._allowed:
            return
        if not self._permissions.allow(right, name):
            raise refusals.forbidden(kind, name, self.vhost.name, self.user)
        if len(self._allowed) >= _RIGHTS_CACHE_MAX:
            self._allowed.clear()
        self._allowed.add((right, name))

    # What is in hand and what is out.

    def take_in_hand(self, size: int) -> None:
        """One publish has no outcome yet."""
        self._in_hand_count += 1
        self._in_hand_bytes += size
        if self._in_hand_bytes > self.limits.in_hand_bytes or self._in_hand_count > self.limits.in_hand_count:
            self.link.pause_reading("in hand")

    def let_go(self, size: int) -> None:
        """One publish has its outcome."""
        self._in_hand_count -= 1
        self._in_hand_bytes -= size
        if (
            self._in_hand_bytes <= self.limits.in_hand_bytes // 2
            and self._in_hand_count <= self.limits.in_hand_count // 2
        ):
            self.link.resume_reading("in hand")

    @property
    def may_have_more_unacked(self) -> bool:
        if self.unacked_bytes < self.limits.unacked_bytes and self.unacked_count < self.limits.unacked_count:
            return True
        self.was_full_of_unacked = True
        return False

    def wake_consumers(self) -> None:
        """Every consumer of this connection may have room."""
        self.was_full_of_unacked = False
        for channel in list(self.channels.values()):
            channel.wake(channel.consumers.values())
        if self.is_open:
            self.vhost.bury_dead()

    def wake(self, consumer: Consumer) -> None:
        """This consumer may have room."""
        source = consumer.source
        if isinstance(source, ServiceQueue):
            consumer.is_parked = False
            source.wake(consumer)
        else:
            source.wake(consumer)

    def gather(self, source: Source, consumer: Consumer | None, token: Any, disposition: Disposition) -> None:
        """Keep a settlement for a service until the end of the read."""
        assert isinstance(source, ServiceQueue)
        key = source, consumer, disposition
        if key not in self._gathered:
            self._gathered[key] = []
            self.server.turn.before_flush(self.hand_over_gathered)
        self._gathered[key].append(token)

    def hand_over_gathered(self) -> None:
        """Tell services what became of their deliveries, then that there may be room again."""
        while self._gathered:
            gathered, self._gathered = self._gathered, {}
            for (source, consumer, disposition), tokens in gathered.items():
                source.settled(consumer, tokens, disposition)
            for source, consumer, _ in gathered:
                if consumer is not None and consumer.channel.consumers.get(consumer.tag) is consumer:
                    source.wake(consumer)

    # Confirms.

    def has_confirms(self, channel: Channel) -> None:
        """A channel has outcomes to tell at the end of the turn."""
        if not self._confirming:
            self.server.turn.before_flush(self._write_confirms)
        self._confirming[channel] = None

    def _write_confirms(self) -> None:
        confirming, self._confirming = self._confirming, {}
        if not self.is_ending:
            for channel in confirming:
                channel.write_confirms()

    # Blocking.

    def block(self, reason: str) -> None:
        """The broker is short of something: tell the client, and do not read what it publishes."""
        if self.is_publisher and not self._is_blocked and not self.is_ending:
            self._is_blocked = True
            if self.machine.block(reason):
                self.touch()
            self.link.pause_reading("alarm")

    def unblock(self) -> None:
        """There is room again."""
        if self._is_blocked:
            self._is_blocked = False
            if not self.is_ending:
                if self.machine.unblock():
                    self.touch()
                self.link.resume_reading("alarm")

    # Direct reply-to.

    def make_reply_target(self, channel: Channel) -> None:
        self.server.reply_targets.add(channel)

    def forget_reply_target(self, channel: Channel) -> None:
        self.server.reply_targets.remove(channel)

    def reply_target(self, channel: Channel) -> str | None:
        return self.server.reply_targets.address(channel)

    def find_reply_target(self, address: str) -> Channel | None:
        return self.server.reply_targets.find(self.vhost, address)


def _cause(event: Any) -> tuple[int, int]:
    """Class and method id of what an event came from."""
    if isinstance(event, e.MethodReceived):
        return event.method.row.class_id, event.method.row.method_id
    return 60, _METHOD_IDS.get(type(event), 0)


def _published(channel: Channel, event: e.Published) -> None:
    session = channel.session
    session.is_publisher = True
    publish(channel, event)
    if session.server.alarm is not None:
        session.block(session.server.alarm)


def _acked(channel: Channel, event: e.Acked) -> None:
    channel.settle(event.delivery_tag, event.multiple, Disposition.ACK)


def _nacked(channel: Channel, event: e.Nacked) -> None:
    disposition = Disposition.REQUEUE if event.requeue else Disposition.REJECT
    channel.settle(event.delivery_tag, event.multiple, disposition)


def _rejected(channel: Channel, event: e.Rejected) -> None:
    channel.settle(event.delivery_tag, False, Disposition.REQUEUE if event.requeue else Disposition.REJECT)


def _flow_changed(channel: Channel, event: e.FlowChanged) -> None:
    channel.is_flowing = event.active
    if event.active:
        channel.wake(channel.consumers.values())


def _method(channel: Channel, event: e.MethodReceived) -> None:
    handler = _REQUESTS.get(type(event.method))
    if handler is None:
        raise refusals.not_implemented(f"{event.method.row.name} is not served")
    handler(channel, event.method)


_METHOD_IDS: dict[type[e.Event], int] = {e.Published: 40, e.Acked: 80, e.Rejected: 90, e.Nacked: 120}

_CHANNEL_HANDLERS: dict[type[e.Event], Callable[[Channel, Any], None]] = {
    e.Published: _published,
    e.Acked: _acked,
    e.Nacked: _nacked,
    e.Rejected: _rejected,
    e.FlowChanged: _flow_changed,
    e.MethodReceived: _method,
}

_HANDLERS: dict[type[e.Event], Callable[[Session, Any], None]] = {
    **dict.fromkeys(_CHANNEL_HANDLERS, Session._on_channel),  # noqa: SLF001 - the tables are part of the class
    e.LoginOffered: Session._login_offered,  # noqa: SLF001
    e.OpenRequested: Session._open_requested,  # noqa: SLF001
    e.SecretOffered: Session._secret_offered,  # noqa: SLF001
    e.ChannelOpened: Session._channel_opened,  # noqa: SLF001
    e.ChannelClosed: Session._channel_closed,  # noqa: SLF001
    e.ConnectionFailed: Session._connection_over,  # noqa: SLF001
    e.ConnectionClosed: Session._connection_over,  # noqa: SLF001
}
