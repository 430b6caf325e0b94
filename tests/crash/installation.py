"""The processes of an installation under test: nodes, links through proxies, the database server of two of the hub.

``trio`` and ``tests.campaign.world`` say which nodes there are, and add the applications.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import psycopg
from psycopg import sql

from semq.installation.configuration import HUB, STANDBY, NodePlace
from semq.installation.enrolment import ensure_enrolled
from tests.crash import node_requests
from tests.crash.armed.process import CrashProcess, SharedServer
from tests.crash.proxy import Proxy
from tests.crash.rabbitmq import BrokerProcess

HUB_2 = "hub-2"


class Installation:
    """All processes of a campaign, each restarted whenever it has ended."""

    def __init__(
        self, folder: Path, targets: Mapping[str, str], addresses: Mapping[str, str], *, cluster: bool
    ) -> None:
        """``targets``: node behind each proxy. ``addresses``: of the institutions, by name.

        ``cluster``: two instances of the hub, with a standby of the second one.
        """
        self.folder = folder
        self.cluster = cluster
        self.addresses = addresses
        #: By name of the store: database URLs of the second instance, also of retired stores.
        self.second_urls: dict[str, str] = {}
        self.store_number = 2  #: semq_id and semq_db_id of the second instance's present store
        self.complaints: list[str] = []
        self.revoked: set[str] = set()  #: institutions that were revoked at some time
        self.changing_store = asyncio.Lock()  #: one takeover, retirement, move or restore of a hub at a time
        self.links_beside_direct: tuple[str, ...] = ()  #: proxies between the partners of the direct link and hubs
        self.retired_configurations: list[Path] = []  #: of the second instance with its former stores
        self._targets = targets
        self.proxies = {name: Proxy() for name in targets}
        self.nodes: dict[str, CrashProcess] = {}
        self.brokers: dict[str, BrokerProcess] = {}
        #: Postgres server of the second instance and its standby.
        self.server = SharedServer(folder / "store-2") if cluster else None

    @property
    def processes(self) -> dict[str, CrashProcess | BrokerProcess]:
        return {**self.nodes, **self.brokers}

    @property
    def store_names(self) -> tuple[str, ...]:
        """The names of all stores, also retired ones."""
        return HUB, *self.second_urls, *self.addresses

    def database(self, store: str) -> str | None:
        """Return the URL of a store; None while the server does not run."""
        if self.server is None or store not in self.second_urls:
            node = self.nodes[store]
            return node.database if node.postgres.pid is not None else None
        return self.second_urls[store] if self.server.postgres.pid is not None else None

    def store(self, hub: str) -> str:
        """Return the present store of a hub instance, as in locators."""
        return "1.1" if hub == HUB else f"{self.store_number}.{self.store_number}"

    def serving_process(self, name: str) -> CrashProcess:
        """Return the process that serves this node's store: the node or the standby."""
        node = self.nodes[name]
        return node.other if node.other is not None and node.other.owns_store else node

    async def wait_until_ready(self) -> None:
        """Wait until all nodes serve. Raises TimeoutError."""
        await asyncio.gather(*(process.wait_until_serving() for process in self.processes.values()))

    async def enrol(self, member: str) -> None:
        """Get a certificate for a node; the node uses it from its next start."""
        await node_requests.repeat_until_done(lambda: ensure_enrolled(self.nodes[HUB], self.nodes[member], again=True))

    async def revoke(self, member: str) -> None:
        """Revoke the certificates of a node; complain if its link does not end."""
        self.revoked.add(member)
        lived_s = await node_requests.revoke_and_measure(self.nodes[HUB], self.addresses[member])
        if lived_s > node_requests.REVOKED_S_MAX:
            self.complaints.append(f"the link of {member} lived {lived_s:.1f} s after its revocation")

    async def enrol_again(self, member: str) -> None:
        """Restart a node with a new certificate for another key."""
        await self.nodes[member].down()
        await self.enrol(member)
        self.nodes[member].up()

    async def start_nodes(self, enrolled: Iterable[str], definitions: str) -> None:
        """Start brokers and hub, enrol institutions, import the hub's definitions, and start all other nodes."""
        for broker in self.brokers.values():
            broker.begin()
        self.nodes[HUB].begin()
        await self.nodes[HUB].wait_until_serving()
        for member in enrolled:
            await self.enrol(member)
        await node_requests.ask(self.nodes[HUB], "definitions.import", document=definitions)
        for name, node in self.nodes.items():
            if name != HUB:
                node.begin()
        await self.wait_until_ready()

    async def start_proxies(self) -> None:
        for proxy in self.proxies.values():
            await proxy.start()

    async def start_server(self) -> str:
        """Start the shared server; return the URL of its database, or an empty text without one."""
        if self.server is None:
            return ""
        self.second_urls[HUB_2] = await self.server.start()
        return self.second_urls[HUB_2]

    def add_nodes(self, places: Mapping[str, NodePlace]) -> None:
        """Prepare the processes of nodes, which are not started yet."""
        self.nodes = {name: CrashProcess(place, self.complaints) for name, place in places.items()}
        if self.server is not None:
            first, second = self.nodes[HUB_2], self.nodes[STANDBY]
            first.other, second.other = second, first
            first.postgres = second.postgres = self.server.postgres
        for name, process in self.processes.items():
            self._connect_proxies(process, *(proxy for proxy, target in self._targets.items() if target == name))

    async def replace_second_store(self) -> None:
        """Give the second instance and its standby, both stopped, another store, in a new database of their server."""
        assert self.server is not None
        former, number = self.second_urls[HUB_2], self.store_number + 1
        database = await node_requests.repeat_until_done(lambda: self._create_database(f"store_{number}"))
        kept = self.folder / f"{HUB_2}-store-{self.store_number}.toml"
        kept.write_text(self.nodes[HUB_2].place.config.read_text("utf-8"), "utf-8")
        self.retired_configurations.append(kept)
        for name in (HUB_2, STANDBY):
            file = self.nodes[name].place.config
            text = file.read_text("utf-8").replace(json.dumps(former), json.dumps(database))
            for key in ("semq_id", "semq_db_id"):
                text = text.replace(f"{key} = {self.store_number}\n", f"{key} = {number}\n")
            file.write_text(text, "utf-8")
        self.second_urls |= {f"{HUB_2} with {self.store(HUB_2)}": former, HUB_2: database}
        self.store_number = number

    async def stop_processes(self) -> None:
        """End all processes in an orderly way."""
        await asyncio.gather(*(node.stop() for node in self.nodes.values()))
        await asyncio.gather(*(broker.stop() for broker in self.brokers.values()))

    async def remove_processes(self) -> None:
        """End all processes immediately."""
        await asyncio.gather(*(process.remove() for process in self.processes.values()))

    async def end_proxies_and_server(self) -> None:
        for proxy in self.proxies.values():
            await proxy.stop()
        if self.server is not None:
            await self.server.stop()

    # ------------------------------------------------------------ inside

    def _connect_proxies(self, node: CrashProcess | BrokerProcess, *proxies: str) -> None:
        """Let proxies lead to a node while it serves. Otherwise they reset connections."""

        def set_target(target: tuple[str, int] | None) -> None:
            for proxy in proxies:
                self.proxies[proxy].target = target

        node.on_ready = lambda: set_target(("127.0.0.1", node.port))
        node.on_end = lambda: set_target(None)

    async def _create_database(self, database: str) -> str:
        """Return the URL of a new database in the shared server. Raises OSError."""
        assert self.server is not None
        server = self.server.postgres
        try:
            async with await psycopg.AsyncConnection.connect(server.url_of("postgres"), autocommit=True) as connection:
                await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        except psycopg.errors.DuplicateDatabase:
            pass  # an earlier attempt has created it
        except psycopg.OperationalError as error:  # the server was killed
            raise ConnectionError(str(error)) from error
        return server.url_of(database)
