"""The life of a node: start and stop of its database, store, engine, AMQP endpoint and clockwork.

After a loss of the store, the node opens it again and builds a new engine from the committed rows, as after a crash
(PROTOCOL.md section 14).
"""

import asyncio
import math
import ssl
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Generic, TypeVar

import structlog
from msgspec.structs import fields

from semq.amqp.wire import Table
from semq.answers.status import Check, NodeStatus
from semq.broker.server import AmqpServer, ServerConfig
from semq.broker.users import Authenticator, User, UserTable
from semq.clock import Clock
from semq.config.reach import url_of
from semq.config.settings import Settings
from semq.engine.latency import Histogram, Stage
from semq.engine.misconduct import SHOWN_MS
from semq.engine.settings import EngineSettings
from semq.errors import SemqError, Unavailable
from semq.moments import utc_text
from semq.seal.session import OVERHEAD
from semq.service import access
from semq.service.access import APPLICATIONS as APPLICATIONS
from semq.service.admin import AdminExchange
from semq.service.clock_check import ClockCheck
from semq.service.clockwork import Clockwork, ScheduledJob
from semq.service.companion.program import Companion, CompanionModule
from semq.service.credentials.files import CredentialFiles
from semq.service.credentials.secrecy import vault_of
from semq.service.database import Requirements
from semq.service.engine_handle import EngineHandle, NodeEngine
from semq.service.errors import PortTaken
from semq.service.figure_count import FigureCount
from semq.service.housekeeping import Housekeeping
from semq.service.monitoring.alerts import Alerts
from semq.service.monitoring.health import FAILING, checks
from semq.service.nightly_extract import DATABASE_VARIABLE, NightlyExtracts
from semq.service.node_host import Ground, NodeHost
from semq.service.operations.audit import ActAudit
from semq.service.operations.census import SharedCensus
from semq.service.operations.operation import BoundOperation, OfferedOperation, Operation, bind
from semq.service.operations.people import person
from semq.service.operations.ports import OperatedNode
from semq.service.operations.reload import Reloading, companion_settings
from semq.service.standby import Claim
from semq.service.telemetry.export import export_of
from semq.store.broker.store import PostgresMessageStore
from semq.store.postgres.errors import StoreFenced
from semq.store.postgres.store import PostgresStore
from semq.store.unit import Recovered
from semq.transport.listener import ListenerConfig
from semq.transport.turn import Turn
from semq.umx_t.retry import backoff
from semq.umx_t.version import PROPERTY, offer

log = structlog.get_logger("semq.node")
NODE_VARIABLE = "SEMQ_NODE"  # environment variable of companion processes: the URL of the node
# Companion programs by section of the configuration; any other section has CompanionModule("semq.SECTION").
PROGRAMS = {"http": CompanionModule("semq.web", shares_output=True, reads_database=True)}

E = TypeVar("E", bound=NodeEngine)
# Seconds between checks of the node's own Postgres. They are needed because, after the death of its main process, the
# other processes of Postgres may keep connections open.
DATABASE_CHECK_S = 10.0
REOPEN_S_FIRST, REOPEN_S_MAX = 0.2, 5.0
LASTING_S = 60.0  # a store that is lost sooner after its opening counts as not opened: each opening uses record ids
PACKET_BYTES_MAX = 8 << 20  # bytes of the largest packet (``semq.umx_t.records``)


class Node(OperatedNode, Generic[E]):
    """The base of both kinds of nodes."""

    vhosts: tuple[str, ...] = (APPLICATIONS,)
    table: tuple[Operation, ...]  #: the operations of this kind of node
    made_parts: tuple[object, ...] = ()  #: objects with handlers of operations that the node itself has made
    companion_sections: tuple[str, ...] = ("http",)  #: sections of the configuration with a companion process

    def __init__(self, settings: Settings, clock: Clock, host: NodeHost | None = None) -> None:
        """``host``: the resources of the process; None if it has this node only."""
        self.host = host or NodeHost()
        self.settings = settings
        self.clock = clock
        self.address = settings.address
        self.own_store = settings.own_store
        self.turn: Turn
        self.engine_handle = EngineHandle[E]()
        self.store: PostgresStore
        self.server: AmqpServer
        self.clockwork: Clockwork
        self.recovered: Recovered
        self.started_at = clock.wall()
        self.companions: dict[str, Companion] = {}  #: by section of the configuration
        self._database = self.host.database(settings)
        self._claim = Claim(settings, clock)
        self._restart: asyncio.Task[None] | None = None  #: builds a new engine
        self._is_lost = False  #: whether the store is lost
        self._reopened_at = -math.inf  #: monotonic time of the last opening after a loss
        self._failed_openings = 0  #: openings since the last one that lasted; they failed, or did not last
        self._is_serving = False
        self._files = CredentialFiles(settings, clock)
        self.census = SharedCensus(self)
        self._cleanup = AsyncExitStack()  #: ends the started parts
        self._failed: asyncio.Future[None]
        self._stopping = False
        self.users: UserTable  #: users with passwords
        self.operations: dict[str, BoundOperation]
        self.reloading = Reloading(self)
        self.nightly = NightlyExtracts(settings, clock, self._database_environment, self.host.extract_turn)
        self.telemetry = export_of(settings, clock)
        self.spans = self.telemetry.documents if self.telemetry is not None else None
        self.alerts = Alerts(str(self.address), settings.alerts, clock, self.checks)

    # --- for subclasses
    async def prepare(self) -> None:
        """Load the node's identity. Called before the store is opened, and again after a wait as a standby."""

    def tls(self) -> ssl.SSLContext | None:
        """Return the TLS context of the node's port; None for a port without TLS."""
        return None

    def greeting(self) -> Table:
        """Return server properties for connection.start, in addition to ``identity``."""
        return {}

    def authenticator(self) -> Authenticator:
        raise NotImplementedError

    def assemble(self, ground: Ground[E]) -> None:
        """Make the parts, and register their services in the virtual hosts. Called before the endpoint listens."""
        raise NotImplementedError

    def build_engine(self, recovered: Recovered) -> E:
        """Return an engine of the parts. Called at the start, and after each loss of the store."""
        raise NotImplementedError

    async def begin_sessions(self) -> None:
        """Begin or renew sessions. Called after a new engine was built."""

    async def end_sessions(self) -> None:
        """End sessions and refuse further documents."""

    def apply_settings(self, before: Settings) -> None:
        """Apply changed settings. Called by ``reconfigure``; must not raise."""
        raise NotImplementedError

    def reconfigure(self, settings: Settings, users: list[User]) -> list[str]:
        """Apply changed settings; return the users who lost a session. Must not raise."""
        before, self.settings = self.settings, settings
        self._files.settings, self.alerts.settings = settings, settings.alerts
        amqp, server = settings.amqp, self.server
        for name in access.virtual_hosts(amqp):
            if name not in server.vhosts:
                server.add_vhost(name)
        server.apply_limits(access.broker_limits(amqp), amqp.max_connections, amqp.max_connections_per_address)
        self.users.replace(users)
        connected = server.connected_users()
        self.apply_settings(before)
        for name, companion in self.companions.items():
            if companion_settings(name, settings) != companion_settings(name, before):
                companion.restart()
        return sorted({*server.apply_permissions(), *(connected - server.connected_users())})

    async def has_contents(self, vhost: str) -> bool:
        """Whether anything is stored for a virtual host."""
        return await self.message_store.knows(vhost)

    def reload_soon(self) -> None:
        """Reload the configuration if the node serves; log the result."""
        if self._is_serving:
            self.reloading.start()
        else:
            log.warning("not_reloaded", text="the node is starting or stopping; the configuration was not read again")

    def jobs(self) -> list[ScheduledJob]:
        return []

    # --- life
    async def start(self) -> None:
        """Start the node and return when it serves. Raises StoreFenced if another process takes its store meanwhile."""
        self._failed = asyncio.get_running_loop().create_future()
        try:
            await self._start()
        except Exception:
            if self._failed.done():
                self._failed.result()  # raises the cause of the other error
            raise

    async def _start(self) -> None:
        """Each step uses what the steps above it have made."""
        await self._open_store()
        await self._assemble()
        self._build()
        await self._serve()

    async def _open_store(self) -> None:
        self._cleanup.callback(self._claim.release)
        self._cleanup.push_async_callback(self._database.close)
        self.turn = self.host.turn()
        self.clockwork = Clockwork(self.engine_handle, self.turn, self.clock)
        self.host.probe(self.settings.amqp.host, self.settings.amqp.port)
        url = await self._database.open()
        self.store = PostgresStore(
            url,
            owner=self._claim.owner(), clock=self.clock, lost=self._store_lost, notified=self._pass_notice,
            after_unit=self.clockwork.reschedule,
            on_lines=self.spans.committed if self.spans is not None else None, vault=vault_of(self.settings),
            readers=self.host.readers(), rest=self.host.rest_rule(),
        )  # fmt: skip
        if self.telemetry is not None:
            self._cleanup.push_async_callback(self.telemetry.stop)
        self._cleanup.push_async_callback(self.store.stop)
        if self.settings.amqp.allow_plain and not self.settings.amqp.tls:
            log.warning("port_without_tls", host=self.settings.amqp.host, text="messages can be read on the network")
        revision = await self.store.inspect(self._database.known_store, is_migrated=self.settings.database.migrate)
        await self._database.update(url, revision)  # `prepare` reads tables
        await self.prepare()
        self.recovered = await self._claim.open(self.store)
        self._database.remember_store(self.recovered.store_uuid)
        if self._claim.has_waited:
            await self.prepare()  # the other process may have changed the values

    async def _assemble(self) -> None:
        clock_check = ClockCheck(self.clock)
        housekeeping = Housekeeping(self.store, self.clock, self.settings, clock_check)
        self.requirements = Requirements(self.store, self.host.poll_factor)
        self.figures = FigureCount(self.store, self.host.poll_factor)
        await self.requirements.check()
        self.message_store = PostgresMessageStore(self.store)
        self.users = UserTable(self.users_of(self.settings))
        self.server = AmqpServer(self._server_config(), self.authenticator(), self.clock, self.message_store, self.turn)
        self.assemble(
            Ground(
                self.settings, self.address, self.clock, clock_check, self.host.poll_factor, self.turn,
                self.engine_handle, self.clockwork, self.store, self.server, self.link_bytes_max, self.identity,
                self._cleanup,
            )
        )  # fmt: skip
        for part in (self, self.nightly, housekeeping, self.alerts, self._files, self.requirements, self.figures):
            self.clockwork.add(part.jobs())
        self.clockwork.add([ScheduledJob("database", DATABASE_CHECK_S, self._check_database)])

    async def _serve(self) -> None:
        self._cleanup.push_async_callback(self.server.stop)
        self._cleanup.callback(self.clockwork.stop)
        self._cleanup.push_async_callback(self.end_sessions)
        audit = ActAudit(self.store, self.clock)
        self.operations = bind(self.table, self, self.made_parts, audit.note, audit.with_names)
        vhost = self.server.vhosts[APPLICATIONS]
        vhost.register(AdminExchange(vhost, self.offered(), lambda name: person(self.store, name)))
        try:
            await self.server.start()
        except OSError as error:
            raise PortTaken(host=self.settings.amqp.host, port=self.settings.amqp.port, fault=str(error)) from error
        await self.begin_sessions()
        self.clockwork.start()
        self._start_companions()
        self._is_serving = True

    def _start_companions(self) -> None:
        sections = [name for name in self.companion_sections if getattr(self.settings, name)]
        if sections and self.settings.file is None:
            remedy = "Start the node with --config FILE: the programs of these sections read it."
            log.warning("companions_need_a_file", sections=sections, remedy=remedy)
            return
        institution = self.settings.institution
        which = ("--institution", institution) if institution is not None else ()
        arguments = ("--config", str(self.settings.file), "--with-parent", *which)
        for section in sections:
            program = PROGRAMS.get(section, CompanionModule(f"semq.{section}"))
            environment = self._database_environment if program.reads_database else self._companion_environment
            companion = Companion(program, arguments, environment, self.clock)
            self._cleanup.push_async_callback(companion.stop)
            self.companions[section] = companion
            companion.start()

    def _companion_environment(self) -> dict[str, str]:
        return {NODE_VARIABLE: url_of(self.settings, self.port)}

    def _database_environment(self) -> dict[str, str]:
        return {DATABASE_VARIABLE: self.store.url, **self._companion_environment()}

    @property
    def is_standing_by(self) -> bool:
        """Whether another process of this node owns the store, so that the start waits."""
        return self._claim.is_waiting

    @property
    def engine(self) -> E:
        """The present engine."""
        return self.engine_handle.current

    @property
    def engine_starts(self) -> int:
        return self.engine_handle.starts

    def _build(self) -> None:
        self.engine_handle.current = self.build_engine(self.recovered)
        self.engine_handle.starts += 1
        log.info(
            "engine_began", boot=self.recovered.boot, incarnation=f"{self.recovered.inc:x}",
            unsettled=self.recovered.unsettled, pending=self.recovered.pending, engine_start=self.engine_starts,
        )  # fmt: skip

    def _pass_notice(self, channel: str) -> None:
        """Pass a NOTIFY on. During the start, when the parts that use it do not exist, the first polls replace it."""
        if self._is_serving:
            self.notified(channel)

    def notified(self, channel: str) -> None:
        """Handle a NOTIFY of Postgres (``semq.store.postgres.store.CHANNELS``)."""

    def _store_lost(self, error: SemqError) -> None:
        if self._stopping:
            return
        log.error("store_lost", error=str(error))
        self._is_lost = True
        if isinstance(error, StoreFenced):
            self._fail(error)
        elif not self._is_restarting:
            self._restart = asyncio.get_running_loop().create_task(self._restart_engine())

    def offered(self) -> Mapping[str, OfferedOperation]:
        """Return the operations of exchange ``semq.admin``."""
        return self.operations

    def _check_database(self) -> None:
        if not self._is_lost and not self._is_restarting and self._database.is_gone:
            self.store.break_off("The node's own Postgres has died.")

    @property
    def _is_restarting(self) -> bool:
        return self._restart is not None and not self._restart.done()

    async def _restart_engine(self) -> None:
        try:
            while self._is_lost:  # the store may be lost again while sessions begin
                self.recovered = await self._reopened()
                self._build()
                await self._begin_sessions_again()
                self.server.journal.flush()  # writes what clients have declared meanwhile
        except StoreFenced as error:
            self._fail(error)
        except Exception as error:
            log.exception("cannot_begin_again")
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if isinstance(error, StoreFenced):
            log.error("fenced", error=error.advice())
        if not self._failed.done():
            self._failed.set_exception(error)
            self._failed.exception()  # retrieved: nobody waits for it if the start has failed, or the node stops

    async def _reopened(self) -> Recovered:
        """Open the store again, repeatedly if needed.

        Raises StoreFenced if another process has taken it over meanwhile, or if the database went back to a former
        owner: the queues in memory are then out of date.
        """
        if self.clock.monotonic() - self._reopened_at >= LASTING_S:
            self._failed_openings = 0
        else:
            await self._pause("The store was lost again soon after it had been opened.")
        while True:
            try:
                self.store.url = await self._database.revive() or self.store.url
                self._is_lost = False
                recovered = await self.store.start()
                self._reopened_at = self.clock.monotonic()
                return recovered
            except StoreFenced:
                raise
            except Unavailable as error:
                await self._pause(str(error))

    async def _pause(self, error: str) -> None:
        self._failed_openings += 1
        pause_s = backoff(self._failed_openings, REOPEN_S_FIRST, REOPEN_S_MAX, self.clock.random())
        log.warning("store_away", error=error, again_in_s=pause_s)
        await asyncio.sleep(pause_s)

    async def _begin_sessions_again(self) -> None:
        # `begin_sessions` may notice a loss of the database before the writer.
        while not self._is_lost:
            try:
                await self.begin_sessions()
                break
            except Unavailable as error:
                log.warning("store_away", error=str(error), again_in_s=REOPEN_S_FIRST)
                await asyncio.sleep(REOPEN_S_FIRST * (0.5 + self.clock.random()))

    async def wait_failed(self) -> None:
        """Wait, and raise when the node cannot continue."""
        await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """End sessions, commit accepted work, close the store and its database."""
        self._stopping, self._is_serving = True, False
        self.reloading.stop()
        await self.nightly.stop()
        await self.alerts.stop()
        if self._restart is not None:
            self._restart.cancel()
        await self._cleanup.aclose()

    @property
    def port(self) -> int:
        return self.server.port

    @property
    def endpoint(self) -> str:
        """HOST:PORT of the listening AMQP endpoint."""
        host = self.settings.amqp.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    def engine_settings(self) -> EngineSettings:
        protocol = self.settings.protocol
        shared = {each.name for each in fields(EngineSettings)}.intersection(type(protocol).model_fields)
        return EngineSettings(**{name: getattr(protocol, name) for name in shared})

    def _server_config(self) -> ServerConfig:
        amqp = self.settings.amqp
        listener = ListenerConfig(
            host=amqp.host, port=amqp.port, tls=self.tls(), connections_max=amqp.max_connections,
            connections_per_address_max=amqp.max_connections_per_address,
        )  # fmt: skip
        return ServerConfig(
            listener=listener,
            connection=access.connection_limits(amqp),
            limits=access.broker_limits(amqp),
            vhosts=(*self.vhosts, *access.virtual_hosts(amqp)),
            properties={
                "cluster_name": str(self.address),
                "node_id": self.address.id,  # read by older nodes
                **self.identity(),
                **self.greeting(),
            },
            door=self.host.shared_port(self.settings),
        )

    @property
    def link_bytes_max(self) -> int:
        """The largest body on a link between nodes, in bytes; a larger one is read and dropped."""
        return max(self.settings.protocol.max_document_bytes + OVERHEAD, PACKET_BYTES_MAX)

    def identity(self) -> Table:
        """Return properties for peers at login."""
        return {
            "node": str(self.address),
            "store_uuid": self.recovered.store_uuid,
            "boot": self.recovered.boot,
            "incarnation": f"{self.recovered.inc:x}",
            PROPERTY: offer(),
        }

    def users_of(self, settings: Settings) -> list[User]:
        return access.application_users(settings.amqp)

    async def status(self) -> NodeStatus:
        """Return the answer of ``node.status``."""
        core = self.engine.core
        return NodeStatus(
            node=str(self.address), kind=self.settings.node.kind, started_at=utc_text(self.started_at),
            store_uuid=self.recovered.store_uuid, boot=self.recovered.boot, incarnation=f"{self.recovered.inc:x}",
            engine_starts=self.engine_starts, store_open=not self._is_lost and not self._is_restarting,
            counters=dict(core.counters.counts), violations=core.misconduct.seen(core.now_ms() - SHOWN_MS),
            amqp=self.server.figures(), departures=self.server.departures(), shortage=self.server.alarm,
            store=self.store.counters, missing_commits=self.store.missing_commits,
            refused_rows=self.store.refusals.recent(), database=self.requirements.unmet,
            failing_jobs=self.clockwork.failing(), waiting_work=self.store.waiting, extract=self.nightly.last,
            credential_files=self._files.status(),
            telemetry=self.telemetry.status() if self.telemetry is not None else None,
            companions={section: companion.status() for section, companion in self.companions.items()},
        )  # fmt: skip

    async def checks(self) -> list[Check]:
        try:
            return checks(await self.status(), self.settings.tls.warn_days)
        except Unavailable as error:
            return [Check("store", FAILING, str(error))]

    def latency(self) -> Mapping[Stage, Histogram]:
        return {}
