"""The resources that the nodes of a virtual server share."""

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import psycopg
from psycopg import sql

from semq.broker.server import SERVER_PROPERTIES, AmqpServer
from semq.broker.shared_port import SharedPort
from semq.clock import Clock
from semq.config.institutions import ServerSettings, database_name, database_url
from semq.config.settings import Settings
from semq.errors import Misconfigured
from semq.service.access import connection_limits
from semq.service.database import NodeDatabase
from semq.service.errors import PortTaken
from semq.service.node_host import NodeHost
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import schema_version
from semq.store.postgres.connections import Readers, Rest, SharedConnections, SharedReaders
from semq.store.postgres.errors import StoreUnavailable
from semq.transport.listener import ConnectionAcceptor, ListenerConfig
from semq.transport.tls_files import TlsFiles, no_passphrase
from semq.transport.turn import Turn

THREADS = 32  # for reading; one store uses two at most
TEMPLATE = "semq_template"  # a database with the newest schema, which is copied for each institution
CONNECT_S = 10
LEASE_FACTOR = 2.0  # a lease lasts two polls: a resting store renews it at each poll
POLL_S = 10.0  # interval at which a separate node searches its database for work


class SharedHost(NodeHost):
    """The part of the process of a virtual server that its nodes use."""

    def __init__(self, settings: ServerSettings, clock: Clock) -> None:
        server = settings.server
        self.settings = settings
        self.poll_factor = max(server.rest_poll_s / POLL_S, 1.0)
        self.connections = SharedConnections(server.connections, server.rest_s, LEASE_FACTOR * server.rest_poll_s)
        self.postgres = SharedPostgres(settings)
        self._turn = Turn()
        self._threads = ThreadPoolExecutor(THREADS, "semq-read")
        self.port = self._port(clock)

    def _port(self, clock: Clock) -> SharedPort:
        amqp = self.settings.amqp
        config = ListenerConfig(
            host=amqp.host, port=amqp.port, connections_max=amqp.max_connections,
            connections_per_address_max=amqp.max_connections_per_address, tls=self._tls(),
        )  # fmt: skip
        properties = {**SERVER_PROPERTIES, "cluster_name": self.settings.server.id}
        return SharedPort(config, connection_limits(amqp), properties, clock, self._turn)

    def _tls(self) -> TlsFiles | None:
        server = self.settings.server
        if server.certificate is None or server.key is None:
            return None
        return TlsFiles((server.certificate, server.key), self._context)

    def _context(self) -> ssl.SSLContext:
        server = self.settings.server
        assert server.certificate is not None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(server.certificate, server.key, password=no_passphrase)
        except (OSError, ssl.SSLError) as error:
            raise Misconfigured(f"server.certificate and server.key cannot be used: {error}.") from error
        return context

    async def open(self) -> None:
        """Start the Postgres server, unless one is configured, and listen. Raises SemqError."""
        await self.postgres.open()
        try:
            await self.port.listener.start()
        except OSError as error:
            raise PortTaken(host=self.settings.amqp.host, port=self.settings.amqp.port, fault=str(error)) from error

    async def close(self) -> None:
        """Stop listening, and stop the server's own Postgres."""
        await self.port.listener.stop(1.0)
        self._threads.shutdown(wait=False)
        await self.postgres.close()

    # --- for the nodes
    def turn(self) -> Turn:
        return self._turn

    def probe(self, host: str, port: int) -> None:
        """Do nothing: the shared port is open already."""

    def shared_port(self, settings: Settings) -> Callable[[AmqpServer, ListenerConfig], ConnectionAcceptor] | None:
        return partial(self._institution_port, settings.institution or "")

    def _institution_port(self, name: str, server: AmqpServer, config: ListenerConfig) -> ConnectionAcceptor:
        return self.port.door(name, config, server)

    def administration(self, server: AmqpServer, config: ListenerConfig) -> ConnectionAcceptor:
        return self._institution_port("", server, config)

    def database(self, settings: Settings) -> NodeDatabase:
        return InstitutionDatabase(settings, self.postgres)

    def readers(self) -> Readers:
        return SharedReaders(self._threads)

    def rest_rule(self) -> Rest:
        return self.connections


class SharedPostgres:
    """The Postgres server of a virtual server: the configured one, or one that the virtual server starts."""

    def __init__(self, settings: ServerSettings) -> None:
        self.url: str = ""
        self._configured_url = settings.database.dsn
        connections_max = str(2 * settings.server.connections + THREADS + 20)
        self._embedded = (
            EmbeddedPostgres(settings.server.data_dir, overrides={"max_connections": connections_max})
            if self._configured_url is None
            else None
        )
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        """Start the server's own Postgres, unless it runs. Raises the errors of ``semq.store.embedded``."""
        async with self._lock:
            self.url = (
                self._configured_url if self._configured_url is not None else await asyncio.to_thread(self._start)
            )

    def _start(self) -> str:
        assert self._embedded is not None
        return self._embedded.start()

    @property
    def is_gone(self) -> bool:
        return self._embedded is not None and self._embedded.pid is None

    async def close(self) -> None:
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.stop)

    async def create(self, institution: str) -> None:
        """Create an institution's database from the template, unless it exists. Raises StoreUnavailable."""
        async with self._lock:  # a template must not be in use while it is copied
            try:
                await asyncio.to_thread(self._create, institution)
            except psycopg.Error as error:
                raise StoreUnavailable(
                    "The database of the institution cannot be created.",
                    database=database_name(institution), fault=str(error).strip(),
                ) from error  # fmt: skip

    def _create(self, institution: str) -> None:
        name = database_name(institution)
        with psycopg.connect(self.url, autocommit=True, connect_timeout=CONNECT_S) as connection:
            if _exists(connection, name):
                return
            template = f"{TEMPLATE}_{schema_version.head()}"
            if not _exists(connection, template):
                new_template = f"{template}_new"
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(new_template)))
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(new_template)))
                from semq.store.postgres import migration  # imports Alembic, which is rarely needed

                migration.upgrade(database_url(self.url, new_template.removeprefix("semq_")))
                rename = sql.SQL("ALTER DATABASE {} RENAME TO {}")
                connection.execute(rename.format(sql.Identifier(new_template), sql.Identifier(template)))
            create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))


class InstitutionDatabase(NodeDatabase):
    """The database of one institution: in the shared server, unless the institution's configuration names another."""

    def __init__(self, settings: Settings, postgres: SharedPostgres) -> None:
        super().__init__(settings)
        self._postgres = postgres
        self._institution = settings.institution or ""
        self._is_shared = False

    async def open(self) -> str:
        """Return the URL, after creating the database if needed."""
        self._is_shared = self._settings.database.dsn == database_url(self._postgres.url, self._institution)
        if self._is_shared:
            await self._postgres.create(self._institution)
        return await super().open()

    async def revive(self) -> str | None:
        """Start the shared server again if it has died; return the URL, or None for a database in another server."""
        if self._postgres.is_gone:
            await self._postgres.open()
        return database_url(self._postgres.url, self._institution) if self._is_shared else None

    @property
    def is_gone(self) -> bool:
        return self._postgres.is_gone


def _exists(connection: "psycopg.Connection[tuple[object, ...]]", name: str) -> bool:
    return connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is not None
