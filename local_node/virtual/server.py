"""A virtual server: runs the nodes of the institutions in its file; a reload adds and removes institutions."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import structlog

from local_node.virtual.institution import FAILING, SERVING, HostedInstitution
from local_node.virtual.operations import OPERATIONS, ServerOperations
from local_node.virtual.shared import SharedHost
from semq.amqp.limits import ConnectionLimits
from semq.broker.server import AmqpServer, ServerConfig
from semq.broker.users import User, UserTable, digest_of
from semq.clock import Clock
from semq.config.file import read_toml
from semq.config.institutions import ServerSettings, is_virtual, server_settings
from semq.errors import Misconfigured, SemqError
from semq.service.access import APPLICATIONS, ApplicationPermissions
from semq.service.admin import AdminExchange
from semq.service.operations.operation import bind
from semq.transport.listener import ListenerConfig

log = structlog.get_logger("semq.virtual")
REVIVE_S = 5.0


def read_server(file: Path) -> ServerSettings:
    """Return the settings of a virtual server. Raises ConfigUnreadable, ConfigInvalid, Misconfigured."""
    written = read_toml(file)
    if not is_virtual(written):
        raise Misconfigured(f"{file} has no [server]: it describes one node (`semq local run`).")
    return server_settings(written, file)


class VirtualServer:
    """The nodes of many institutions. Runs as a node does (``semq.service.process.Runnable``)."""

    is_standing_by = False  #: an institution may be, the server never is

    def __init__(self, settings: ServerSettings, file: Path, env: Mapping[str, str], clock: Clock) -> None:
        self.settings = settings
        self.file = file
        self.institutions: dict[str, HostedInstitution] = {}
        self.host: SharedHost
        self._env = env
        self._clock = clock
        self._begun = AsyncExitStack()
        self._reloading = asyncio.Lock()
        self._asked: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open the port and the database server, and try to start every institution once. Raises SemqError."""
        self.host = SharedHost(self.settings, self._clock)
        self._begun.push_async_callback(self.host.close)
        await self.host.open()
        self._starts = asyncio.Semaphore(self.settings.server.starts)
        await self._administer()
        self._begun.push_async_callback(self._end_all)
        for name in self.settings.names:
            self._begin(name)
        await asyncio.gather(*(one.tried.wait() for one in self.institutions.values()))
        counts = self.counts()
        log.info("institutions", **counts)

    async def _administer(self) -> None:
        users = self.settings.server.users
        everything: dict[str, Any] = {APPLICATIONS: ApplicationPermissions(is_admin=True)}
        names = {name: password.get_secret_value() for name, password in users.items()} or {"guest": "guest"}
        table = UserTable(
            [User(name, digest_of(word), everything, loopback_only=not users) for name, word in names.items()]
        )
        config = ServerConfig(ListenerConfig(), ConnectionLimits(), door=self.host.administration)
        self._administration = AmqpServer(config, table, self._clock, None, self.host.turn())
        vhost = self._administration.vhosts[APPLICATIONS]
        vhost.register(AdminExchange(vhost, bind(OPERATIONS, (ServerOperations(self),))))
        await self._administration.start()
        self._begun.push_async_callback(self._administration.stop)

    def _begin(self, name: str) -> None:
        self.institutions[name] = HostedInstitution(
            name, self.file, self._env, self._clock, self.host, self._starts
        )  # fmt: skip

    def counts(self) -> dict[str, int]:
        """Return the numbers of all, of serving and of failing institutions."""
        states = [one.state for one in self.institutions.values()]
        return {"all": len(states), "serving": states.count(SERVING), "failing": states.count(FAILING)}

    # --- changes
    async def reload(self) -> dict[str, Any]:
        """Follow the file: begin new institutions, end those that are gone, reload the others; return what was done.

        Raises ConfigUnreadable, ConfigInvalid; then nothing has changed. A fault in the table of one institution keeps
        its former settings and is reported. The data of a removed institution is kept.
        """
        async with self._reloading:
            names = (await asyncio.to_thread(read_server, self.file)).names
            gone = [name for name in self.institutions if name not in names]
            new = [name for name in names if name not in self.institutions]
            kept = [one for name, one in self.institutions.items() if name in names]
            changes = await asyncio.gather(*map(_reloaded, kept))
            await asyncio.gather(*(self.institutions.pop(name).end() for name in gone))
            for name in new:
                self._begin(name)
            await asyncio.gather(*(self.institutions[name].tried.wait() for name in new))
            done = {
                "added": new, "removed": gone,
                "changed": {one.name: keys for one, keys in zip(kept, changes, strict=True) if keys},
                "failing": {one.name: one.error for one in self.institutions.values() if one.state == FAILING},
            }  # fmt: skip
            log.info("server_reloaded", **done)
            return done

    def reload_soon(self) -> None:
        """Reload the file; the result goes to the log."""
        task = asyncio.get_running_loop().create_task(self._logged_reload())
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)

    async def _logged_reload(self) -> None:
        try:
            await self.reload()
        except SemqError as error:
            log.error("not_reloaded", error=error.advice())

    # --- life
    @property
    def endpoint(self) -> str:
        """HOST:PORT of the listening AMQP endpoint."""
        host = self.settings.amqp.host
        port = self.host.port.listener.port
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def wait_failed(self) -> None:
        """Restart the server's own Postgres whenever it has died: idle institutions would not notice."""
        while True:
            await asyncio.sleep(REVIVE_S)
            if self.host.postgres.is_gone:
                try:
                    await self.host.postgres.open()
                except SemqError as error:
                    log.error("postgres_not_started", error=error.advice())

    async def stop(self) -> None:
        """Stop every node, then the shared resources."""
        for task in self._asked:
            task.cancel()
        await self._begun.aclose()

    async def _end_all(self) -> None:
        await asyncio.gather(*(one.end() for one in self.institutions.values()))


async def _reloaded(one: HostedInstitution) -> dict[str, Any]:
    """Reload one institution; return the changes, or the fault; restart immediately one that fails."""
    node = one.node
    if node is None:
        one.restart()
        return {}
    try:
        changes = await node.reloading.reload()
    except SemqError as error:
        return {"fault": error.advice()}
    return {name: value for name, value in changes.items() if value}
