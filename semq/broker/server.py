"""The AMQP endpoint of a node: a port, virtual hosts, users, a store and limits.

At the end of each turn of the event loop, the store gets the changes in one list; then the links write.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from itertools import count
from platform import python_version

from msgspec import Struct, field
from msgspec.structs import replace

from semq import __version__
from semq.amqp.connection.server import ServerConnection
from semq.amqp.limits import ANY_SIZE, ConnectionLimits
from semq.amqp.sasl import Credentials
from semq.amqp.wire import Table
from semq.answers.status import AmqpFigures
from semq.broker import refusals
from semq.broker.channel.reply_targets import ReplyTargets
from semq.broker.departures import Departure
from semq.broker.durable.journal import Journal
from semq.broker.durable.no_store import NoStore
from semq.broker.durable.restoration import restore
from semq.broker.environment import Environment
from semq.broker.limits import BrokerLimits
from semq.broker.long_tasks import LongTasks
from semq.broker.memory_gauge import MemoryGauge
from semq.broker.queues.bodies import Bodies
from semq.broker.queues.pages import Pager
from semq.broker.session import BrokerSession
from semq.broker.timers import Timers
from semq.broker.users import Authenticator
from semq.broker.vhost import VirtualHost
from semq.clock import Clock
from semq.store.broker.operations import MessageStore, OrderlyEnd
from semq.transport.link import AmqpMachine
from semq.transport.listener import ConnectionAcceptor, Drainable, Listener, ListenerConfig
from semq.transport.peer import PeerInfo
from semq.transport.turn import Turn

log = logging.getLogger(__name__)

# Announced by every server.
SERVER_PROPERTIES: Table = {
    "product": "SEMQ",
    "version": __version__,
    "platform": f"Python {python_version()}",
    "copyright": "Copyright the SEMQ authors.",
    "information": "Licensed under the Apache License 2.0.",
}


class ServerCounters(Struct):
    """Sums since the start. ``published`` and ``delivered`` count ended connections only."""

    published: int = 0
    delivered: int = 0
    logins_refused: int = 0
    alarms: int = 0


class ServerConfig(Struct):
    """The settings of an ``AmqpServer``."""

    listener: ListenerConfig = field(default_factory=ListenerConfig)
    connection: ConnectionLimits = field(default_factory=ConnectionLimits)
    limits: BrokerLimits = field(default_factory=BrokerLimits)
    vhosts: tuple[str, ...] = ("/",)
    #: added to SERVER_PROPERTIES; they replace properties of the same names
    properties: Table = field(default_factory=dict)
    #: makes the listener of servers that share a port (``shared_port``)
    door: "Callable[[AmqpServer, ListenerConfig], ConnectionAcceptor] | None" = None


class AmqpServer:
    """An AMQP 0-9-1 server. Services can be registered with ``vhosts`` before ``start``."""

    def __init__(
        self,
        config: ServerConfig,
        authenticator: Authenticator,
        clock: Clock,
        store: MessageStore | None = None,
        turn: Turn | None = None,
    ) -> None:
        self.config = config
        self.limits = config.limits
        self.authenticator = authenticator
        self.clock = clock
        self.turn = turn or Turn()
        self.counters = ServerCounters()
        self.alarm: str | None = None  # why publishers are blocked
        self._shortage: str | None = None  # from ``block_publishers``
        self._is_short_of_memory = False
        self.sessions: dict[BrokerSession, None] = {}
        self.reply_targets = ReplyTargets(clock)
        self.memory = MemoryGauge(self._check_alarm)
        self.in_transactions = MemoryGauge(self._check_alarm)
        self.timers = Timers(self._set_timer)
        self._store: MessageStore = store or NoStore()
        self.journal = Journal(self._store, self._schedule_journal_flush)
        self.bodies = Bodies(self._store, self.journal)
        self.long_tasks = LongTasks(self._schedule_long_tasks)
        # Without a store, all messages stay in memory.
        self.pager = (
            None
            if store is None
            else Pager(
                self.bodies, self.memory, self.timers, self.clock, config.limits.window, config.limits.window_bytes
            )
        )
        # Larger bodies are refused at the content header, unless a service accepts or drains them (``arrival``).
        self.message_max = config.connection.body_max
        spill_from = min(config.limits.spill_from, self.message_max + 1)
        self._connection_limits = replace(config.connection, stream_from=spill_from, body_max=ANY_SIZE)
        self._queue_ids = count(1)
        self.vhosts = {name: self._make_vhost(name) for name in config.vhosts}
        self.listener: ConnectionAcceptor = (
            config.door(self, config.listener)
            if config.door is not None
            else Listener(config.listener, self._accept, clock, self.turn)
        )
        self._logins: set[asyncio.Task[None]] = set()
        self._is_restored = False
        self._timer: asyncio.TimerHandle | None = None

    # Start and stop.

    async def start(self) -> None:
        """Restore the stored state, then listen. Raises OSError if the port is in use."""
        state = await self._store.load()
        self._queue_ids = count(state.next_queue_id)
        self.bodies.begin_at(state.next_body_id)
        restore(state, self.vhosts, self.bodies)
        self._is_restored = True
        await self.listener.start()
        log.info("AMQP listens on %s:%d", self.config.listener.host, self.port)

    @property
    def port(self) -> int:
        return self.listener.port

    async def stop(self, drain_s: float = 5.0) -> None:
        """Close all connections, waiting at most ``drain_s`` seconds; then wait for the store."""
        await self.listener.stop(drain_s)
        self.long_tasks.finish()
        for login in list(self._logins):
            login.cancel()
        for vhost in self.vhosts.values():
            vhost.note_transient()
            vhost.env.departures.log_rest()
        if self._timer is not None:
            self._timer.cancel()
        await self._wait_for_store()

    async def _wait_for_store(self) -> None:
        await self._save_journal()
        if self.journal.has_unwritten:  # the operations of a refused list, or a list that is tried once more
            await self._save_journal()
        # The note would be about the previous process without a restoration, and wrong while operations are missing.
        if self._is_restored and not self.journal.has_unwritten:
            self.journal.add(OrderlyEnd())
            await self._save_journal()

    async def _save_journal(self) -> None:
        """Save the operations of the journal, and wait for the answer of the store."""
        answered = asyncio.Event()
        self.journal.when_saved(lambda _: answered.set())
        self.journal.flush()
        await answered.wait()

    def block_publishers(self, shortage: str | None) -> None:
        """Block publishers because of a shortage outside of the broker, such as disk space; None ends it."""
        self._shortage = shortage
        self._check_alarm()

    def add_vhost(self, name: str) -> None:
        """Add an empty virtual host. Its stored rows, if any, are restored at the next start."""
        self.vhosts[name] = self._make_vhost(name)

    def apply_limits(self, limits: BrokerLimits, connections_max: int, connections_per_address_max: int) -> None:
        """Apply changed limits, except ``window``, ``window_bytes`` and ``spill_from``.

        Open connections keep the limits of one connection. Objects beyond a limit remain.
        """
        self.limits = limits
        self.listener.config = replace(
            self.listener.config,
            connections_max=connections_max,
            connections_per_address_max=connections_per_address_max,
        )
        for vhost in self.vhosts.values():
            vhost.limits = limits.vhost
        self._check_alarm()

    def announce(self, properties: Table) -> None:
        """Add or replace properties that new connections get."""
        self.config.properties = {**self.config.properties, **properties}

    def connected_users(self) -> set[str]:
        """Return the users who have an open connection."""
        return {session.user for session in self.sessions if session.is_open}

    def apply_permissions(self) -> list[str]:
        """Apply changed permissions to open connections. Close those that may not continue; return their users.

        These connections are closed after this turn, so that pending replies are sent first.
        """
        users: dict[str, None] = {}
        for session in [session for session in self.sessions if session.is_open]:
            permissions = self.authenticator.permissions(session.user, session.vhost.name)
            if not session.apply_permissions(permissions):
                users[session.user] = None
                asyncio.get_running_loop().call_soon(session.close, refusals.reduced_permissions(session.user))
        return list(users)

    def figures(self) -> AmqpFigures:
        queues = [queue for vhost in self.vhosts.values() for queue in vhost.holding]
        return AmqpFigures(
            connections=len(self.sessions),
            connections_accepted=self.listener.accepted,
            connections_refused=self.listener.refused,
            handshakes_failed=self.listener.handshakes_failed,
            logins_refused=self.counters.logins_refused,
            channels=sum(len(session.channels) for session in self.sessions),
            published=self.counters.published + sum(session.published for session in self.sessions),
            delivered=self.counters.delivered + sum(session.delivered for session in self.sessions),
            queues=len(queues),
            messages_ready=sum(len(queue.ready) for queue in queues),
            messages_unacked=sum(queue.unacked for queue in queues),
            memory_bytes=self.memory.bytes,
            store_pending_bytes=self.journal.pending_bytes,
            alarms=self.counters.alarms,
        )

    def departures(self) -> dict[str, int]:
        """Return the messages that left without a consumer, by way."""
        every = [vhost.env.departures.counts for vhost in self.vhosts.values()]
        return {way.value: sum(counts[way] for counts in every) for way in Departure}

    # For sessions.

    def authenticate(
        self,
        peer: PeerInfo,
        mechanism: str,
        credentials: Credentials,
        answer: Callable[[str | None], None],
        fail: Callable[[], None],
    ) -> None:
        """Authenticate the user of a connection; in a later turn, ``answer`` gets the name, or None for a refusal.
        ``fail`` is called instead if this is impossible now.
        """

        async def decide() -> None:
            try:
                user = await self.authenticator.authenticate(mechanism, credentials, peer)
            except Exception:
                log.exception("a login could not be checked")
                fail()
                return
            self.counters.logins_refused += user is None
            answer(user)

        task = asyncio.get_running_loop().create_task(decide())
        self._logins.add(task)
        task.add_done_callback(self._login_done)

    def _login_done(self, task: "asyncio.Task[None]") -> None:
        self._logins.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a login ended with an unexpected error", exc_info=task.exception())

    def forget(self, session: BrokerSession) -> None:
        self.sessions.pop(session, None)
        self.counters.published += session.published
        self.counters.delivered += session.delivered

    # Private methods.

    def _make_vhost(self, name: str) -> VirtualHost:
        env = Environment(self.clock, self.timers, self.journal, self.memory, self.long_tasks, self.pager, name)
        vhost = VirtualHost(name, env, lambda: next(self._queue_ids), self.limits.vhost)
        vhost.send_reply = partial(self.reply_targets.send, vhost)
        return vhost

    def _accept(self) -> tuple[AmqpMachine, Drainable]:
        machine = ServerConnection(
            self._connection_limits,
            server_properties={**SERVER_PROPERTIES, **self.config.properties},
            mechanisms=self.authenticator.mechanisms,
        )
        return machine, BrokerSession(self, machine)

    def _schedule_journal_flush(self) -> None:
        self.turn.before_flush(self._flush_journal)

    def _schedule_long_tasks(self) -> None:
        loop = asyncio.get_running_loop()

        def saved(_error: BaseException | None) -> None:
            loop.call_soon(self._run_long_tasks)

        self.journal.when_saved(saved)

    def _run_long_tasks(self) -> None:
        self.long_tasks.run()
        for vhost in self.vhosts.values():
            vhost.route_dead_letters()
        if len(self.long_tasks):
            self._schedule_long_tasks()

    def _flush_journal(self) -> None:
        self.journal.flush()
        self._check_alarm()

    def _check_alarm(self) -> None:
        held_bytes = self.memory.bytes + self.in_transactions.bytes + self.journal.pending_bytes
        limit = self.limits.memory_low if self._is_short_of_memory else self.limits.memory_high
        self._is_short_of_memory = held_bytes > limit
        self._set_alarm("low on memory" if self._is_short_of_memory else self._shortage, held_bytes)

    def _set_alarm(self, reason: str | None, held_bytes: int) -> None:
        previous, self.alarm = self.alarm, reason
        if reason is not None and previous is None:
            self.counters.alarms += 1
            log.warning("publishers are blocked: %s; %d bytes of messages are held", reason, held_bytes)
            for session in list(self.sessions):
                session.block(reason)
        elif reason is None and previous is not None:
            log.info("publishers are unblocked: %d bytes of messages are held", held_bytes)
            for session in list(self.sessions):
                session.unblock()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        earliest = self.timers.earliest()
        if earliest is not None:
            delay = max(0.0, earliest - self.clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.timers.run(self.clock.monotonic())
        for vhost in self.vhosts.values():
            vhost.route_dead_letters()
        self._set_timer()
