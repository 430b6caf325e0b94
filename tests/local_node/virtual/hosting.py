"""A virtual server inside the test's own event loop, with databases of its own in the Postgres server of the tests."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

from local_node.node import LocalNode
from local_node.virtual.server import VirtualServer, read_server
from local_node.virtual.shared import TEMPLATE
from platform_node.node import HubNode
from semq.clock import SystemClock
from semq.config import load
from semq.config.institutions import database_name
from semq.store.embedded.cluster import DATABASE
from semq.store.postgres import schema_version
from semq.transport.client import ClientLink
from semq.transport.dialer import DialConfig, dial
from tests.service.inprocess import InProcess, ask
from tests.waiting import until

HUB = '[node]\nkind = "platform"\nid = "hub"\ndata_dir = "hub"\n[amqp]\nport = 0\n[protocol]\ninquiry_s = 0.5\n'
SERVER = """
[server]
id = "east"
data_dir = "east"
{server}
[database]
url = "{database}"
[amqp]
port = 0
[hub]
url = "amqp://127.0.0.1:{hub}"
reconnect_s_min = 0.1
reconnect_s_max = 0.2
[protocol]
inquiry_s = 0.5
cleanup_s = 0.1
{tables}
"""


@dataclass
class RunningServer:
    """A virtual server and its clients."""

    inprocess: InProcess
    server: VirtualServer
    clients: dict[str, ClientLink] = field(default_factory=dict, init=False)  #: connections of ``ask``, by virtual host

    def node(self, name: str) -> LocalNode:
        """Return the running node of an institution."""
        node = self.server.institutions[name].node
        assert node is not None
        return node

    async def client(self, virtual_host: str, user: str = "guest", password: str = "guest") -> ClientLink:
        port = self.server.host.port.listener.port
        config = DialConfig("127.0.0.1", port, virtual_host=virtual_host, user=user, password=password)
        link = await dial(config, SystemClock(), self.server.host.turn())
        self.inprocess.stack.push_async_callback(link.close)
        return link

    async def _client_of(self, virtual_host: str) -> ClientLink:
        """Return the connection for requests to a virtual host; the first call opens it."""
        link = self.clients.get(virtual_host)
        if link is None or not link.is_open:
            link = self.clients[virtual_host] = await self.client(virtual_host)
        return link

    async def ask(self, virtual_host: str, operation: str, **arguments: Any) -> Any:
        answer = await ask(await self._client_of(virtual_host), operation, arguments)
        assert answer["ok"], answer
        return answer["result"]

    async def listed(self) -> dict[str, dict[str, Any]]:
        """Return the rows of ``server.list`` by institution."""
        return {row["institution"]: row for row in await self.ask("/", "server.list")}

    async def send(self, source: str, target: str) -> str:
        """Submit a document; return its LK0."""
        return str((await self.ask(source, "msg.submit", target=target, body_base64="eA=="))["lk0"])

    async def wait_arrived(self, target: LocalNode | str, lk0: str) -> None:
        """Wait until a document is in the inbox of an institution of the server, or of another node."""
        link = await (self._client_of(target) if isinstance(target, str) else self.inprocess.client(target))

        async def is_there() -> bool:
            return any(row["lk0"] == lk0 for row in (await ask(link, "msg.list"))["result"]["rows"])

        await until(is_there)


@dataclass
class RunningInstallation(RunningServer):
    """A hub and a virtual server; ``names`` are the institutions in the hub's configuration."""

    hub: HubNode
    names: Sequence[str]
    database: str
    options: str = ""

    def write(self, tables: Mapping[str, str]) -> None:
        """Write the server's file. ``tables``: further lines of the table of each institution."""
        text = "\n".join(
            f'[institutions."{name}"]\nhub.password = "{name}"\n{more}' for name, more in tables.items()
        )  # fmt: skip
        self.server.file.write_text(
            SERVER.format(database=self.database, hub=self.hub.port, tables=text, server=self.options)
        )


@contextmanager
def databases(inprocess: InProcess, names: Sequence[str]) -> Iterator[str]:
    """Yield the URL of a database for a server; at the end, drop the databases that it made for institutions.

    First make the template of these databases, with the newest schema, if it is missing.
    """
    database = inprocess.new_database()
    with psycopg.connect(database, autocommit=True) as connection:
        template = f"{TEMPLATE}_{schema_version.head()}"
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [template]).fetchone():
            copy = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
            connection.execute(copy.format(sql.Identifier(template), sql.Identifier(DATABASE)))
    try:
        yield database
    finally:
        with psycopg.connect(database, autocommit=True) as connection:
            for name in names:
                drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
                connection.execute(drop.format(sql.Identifier(database_name(name))))


@asynccontextmanager
async def hosting(
    inprocess: InProcess, tables: Sequence[str] = ("", "", ""), options: str = "", *, secure: bool = False
) -> AsyncIterator[RunningInstallation]:
    """Run a hub with five configured institutions, and a server with an institution for each of ``tables``.

    ``tables``: further lines of the table of each institution; ``options``: further lines of section ``server``.
    ``secure``: the institutions log in at the hub by certificates, and each is enrolled with a token of its own.
    """
    names = [f"{uuid4().hex[:8]}-{number}" for number in range(5)]
    text = HUB + "".join(f'[nodes."{name}"]\npassword = "{name}"\n' for name in names)
    hub = await inprocess.hub(text.replace("port = 0\n", "port = 0\ntls = true\n") if secure else text)
    file = inprocess.folder / "server.toml"
    file.write_text('[server]\nid = "x"\ndata_dir = "x"\n')  # for ``write``, which takes the path from a server
    with databases(inprocess, names) as database:
        server = VirtualServer(read_server(file), file, {}, SystemClock())
        hosted = RunningInstallation(inprocess, server, hub, names, database, options)
        hosted.write(dict(zip(names, tables, strict=False)))
        if secure:
            file.write_text(file.read_text().replace("amqp://127", "amqps://127"))
            for name in names[: len(tables)]:
                await inprocess.enrol(load(file, {}, name), hub)
        hosted.server = VirtualServer(read_server(file), file, {}, SystemClock())
        try:
            await hosted.server.start()
            yield hosted
        finally:
            await hosted.server.stop()
