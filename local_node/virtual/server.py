"""A virtual server: runs the nodes of the institutions in its file."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import structlog
from msgspec.structs import asdict

from local_node.virtual.institution import FAILING, SERVING, HostedInstitution
from local_node.virtual.operations import OPERATIONS, ServerChanges
from local_node.virtual.shared import SharedHost
from semq.amqp.limits import ConnectionLimits
from semq.broker.server import AmqpServer, ServerConfig
from semq.broker.users import Permissions, User, UserTable, digest_of
from semq.clock import Clock
from semq.config.file import read_toml
from semq.config.institutions import ServerSettings, is_virtual, server_settings
from semq.errors import Misconfigured, SemqError
from semq.service.access import APPLICATIONS, ApplicationPermissions
from semq.service.admin import AdminExchange
from semq.service.operations.operation import bind
from semq.transport.listener import ListenerConfig

log = structlog.get_logger("semq.virtual")
POSTGRES_CHECK_S = 5.0


def read_server(file: Path) -> ServerSettings:
    """Return the settings of a virtual server. Raises ConfigUnreadable, ConfigInvalid, Misconfigured."""
    written = read_toml(file)
    if not is_virtual(written):
        raise Misconfigured(f"{file} has no [server]: it describes one node (`semq node run`).")
    return server_settings(written, file)


class VirtualServer:
    """The nodes of many institutions (a ``semq.service.process.Runnable``)."""

    is_standing_by = False  #: the server never stands by; the nodes of its institutions may

    def __init__(self, settings: ServerSettings, file: Path, env: Mapping[str, str], clock: Clock) -> None:
        self.settings = settings
        self.file = file
        self.institutions: dict[str, HostedInstitution] = {}
        self.host: SharedHost
        self._env = env
        self._clock = clock
        self._cleanup = AsyncExitStack()
        self._reloading = asyncio.Lock()
        self._reloads: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Open the port and the database server, and try to start every institution once. Raises SemqError."""
        self.host = SharedHost(self.settings, self._clock)
        self._cleanup.push_async_callback(self.host.close)
        await self.host.open()
        self._starts = asyncio.Semaphore(self.settings.server.starts)
        await self._administer()
        self._cleanup.push_async_callback(self._end_institutions)
        for name in self.settings.names:
            self._add(name)
        await asyncio.gather(*(institution.has_tried.wait() for institution in self.institutions.values()))
        counts = self.counts()
        log.info("institutions", **counts)

    async def _administer(self) -> None:
        users = self.settings.server.users
        permissions: dict[str, Permissions] = {APPLICATIONS: ApplicationPermissions(is_admin=True)}
        passwords = {name: password.get_secret_value() for name, password in users.items()} or {"guest": "guest"}
        table = UserTable(
            [
                User(name, digest_of(password), permissions, loopback_only=not users)
                for name, password in passwords.items()
            ]
        )
        config = ServerConfig(ListenerConfig(), ConnectionLimits(), door=self.host.administration)
        self._administration = AmqpServer(config, table, self._clock, None, self.host.turn())
        vhost = self._administration.vhosts[APPLICATIONS]
        vhost.register(AdminExchange(vhost, bind(OPERATIONS, self)))
        await self._administration.start()
        self._cleanup.push_async_callback(self._administration.stop)

    def _add(self, name: str) -> None:
        self.institutions[name] = HostedInstitution(name, self.file, self._env, self._clock, self.host, self._starts)

    def counts(self) -> dict[str, int]:
        states = [institution.present_state for institution in self.institutions.values()]
        return {"all": len(states), "serving": states.count(SERVING), "failing": states.count(FAILING)}

    # --- changes
    async def reload(self) -> ServerChanges:
        """Read the file again: start new institutions, end removed ones, reload the others; return the changes.

        An institution whose table has a fault keeps its former settings, and the fault is reported. Raises
        ConfigUnreadable, ConfigInvalid, Misconfigured; then nothing has changed.
        """
        async with self._reloading:
            names = (await asyncio.to_thread(read_server, self.file)).names
            removed = [name for name in self.institutions if name not in names]
            added = [name for name in names if name not in self.institutions]
            staying = [name for name in self.institutions if name in names]
            changes = await asyncio.gather(*(_reload(self.institutions[name]) for name in staying))
            await asyncio.gather(*(self.institutions.pop(name).end() for name in removed))
            for name in added:
                self._add(name)
            await asyncio.gather(*(self.institutions[name].has_tried.wait() for name in added))
            failing = [institution for institution in self.institutions.values() if institution.state == FAILING]
            result = ServerChanges(
                added=added, removed=removed,
                changed={name: keys for name, keys in zip(staying, changes, strict=True) if keys},
                failing={institution.name: institution.error for institution in failing},
            )  # fmt: skip
            log.info("server_reloaded", **asdict(result))
            return result

    def reload_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self._logged_reload())
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)

    async def _logged_reload(self) -> None:
        try:
            await self.reload()
        except SemqError as error:
            log.error("not_reloaded", error=error.advice())

    # --- life
    @property
    def endpoint(self) -> str:
        host = self.settings.amqp.host
        port = self.host.port.listener.port
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def wait_failed(self) -> None:
        """Restart the server's own Postgres when it has died: idle institutions do not notice that."""
        while True:
            await asyncio.sleep(POSTGRES_CHECK_S)
            if self.host.postgres.is_gone:
                try:
                    await self.host.postgres.open()
                except SemqError as error:
                    log.error("postgres_not_started", error=error.advice())

    async def stop(self) -> None:
        for task in self._reloads:
            task.cancel()
        await self._cleanup.aclose()

    async def _end_institutions(self) -> None:
        await asyncio.gather(*(institution.end() for institution in self.institutions.values()))


async def _reload(institution: HostedInstitution) -> dict[str, object]:
    """Reload one institution, and return the changes or the fault; restart it if it does not run."""
    node = institution.node
    if node is None:
        institution.restart()
        return {}
    try:
        changes = await node.reloading.reload()
    except SemqError as error:
        return {"fault": error.advice()}
    return {name: value for name, value in asdict(changes).items() if value}
