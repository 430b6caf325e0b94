"""The installation under test: a hub and institutions as processes, proxies on their links, and applications.

A third institution, ``c``, sends nothing. It receives the documents addressed to the group of all three.

    application ─ app-a ─ a ─ link-a ─ hub ─ link-b ─ b ─ app-b ─ application

A cluster has two instances of the hub with a store each, and a standby of the second one. Institutions a and b dial the
hub through the proxies ``link-…``, ``other-…`` and ``standby-…``. (The drawing leaves out the standby and its proxies
``standby-a``, ``standby-b`` and ``way-standby``.)

    application ─ app-a ─ a ─┬ link-a ──── hub ─── way-hub ──┐
                             └ other-a ─╮╭─╯              carrier
                             ┌ other-b ─╯╰─╮                 │
    application ─ app-b ─ b ─┴ link-b ── hub-2 ── way-hub-2 ─┘

With a direct link, a dials b through the proxy ``direct``.

With RabbitMQ, the carrier is a cluster of three nodes. Each proxy ``way-…`` leads to one of them; each instance also
has the addresses of the other two.
"""

import asyncio
import json
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import psycopg
from psycopg import sql

from bench.rabbitmq.server import cluster_nodes, port_mapper
from semq.installation.configuration import CARRIER, DIRECT, HUB, STANDBY, ApplicationLogin, InstallationPlan
from semq.installation.enrolment import ensure_enrolled
from tests.crash import node_requests
from tests.crash.application import DocumentConsumer, Submitter
from tests.crash.book import Book
from tests.crash.documents import PIECES_FROM, DocumentStream
from tests.crash.excuses import CertificateChanges
from tests.crash.process import CrashProcess, SharedServer
from tests.crash.proxy import Proxy
from tests.crash.rabbitmq import BrokerProcess

A, B, C = "a", "b", "c"
HUB_2 = "hub-2"
SIDES = (A, B)
OTHER = {A: B, B: A}
MEMBERS = (*SIDES, C)  # of the group
ADDRESS = {A: "1.10008", B: "1.56001", C: "1.88001"}
GROUP = "3.all"
DEFINITIONS = """
[groups.all]
members = ["10008", "56001", "88001"]
[[agreements]]
from = ["*"]
to = ["*"]
"""
# Proxy | node.
PROXIES = {"link-a": HUB, "link-b": HUB, "app-a": A, "app-b": B, "app-c": C}
DIRECT_PROXIES = PROXIES | {DIRECT: B}
CLUSTER_PROXIES = PROXIES | {
    "link-b": HUB_2, "other-a": HUB_2, "other-b": HUB, "standby-a": STANDBY, "standby-b": STANDBY,
    "way-hub": CARRIER, "way-hub-2": CARRIER, "way-standby": CARRIER,
}  # fmt: skip
BROKERS = tuple(f"{CARRIER}-{number}" for number in (1, 2, 3))
RABBITMQ_PROXIES = CLUSTER_PROXIES | {"way-hub": BROKERS[0], "way-hub-2": BROKERS[1], "way-standby": BROKERS[2]}
# Process of the hub | proxy on the way to the carrier.
WAYS = {HUB: "way-hub", HUB_2: "way-hub-2", STANDBY: "way-standby"}
# Average pause between two documents of a lane.
PAUSE_S = {A: 0.4, B: 1.2}
PASSWORD = "only-for-tests"
PLAN = InstallationPlan(
    {A: "10008", B: "56001", C: "88001"},
    ApplicationLogin("app", PASSWORD),
    # Short timers of PROTOCOL.md section 13.
    common_rows={
        "protocol.inquiry_s": 0.5,
        "protocol.inquiry_s_max": 1.5,
        "protocol.inquiry_custody_s_max": 1.5,
        "protocol.cleanup_s": 0.2,
    },
    hub_rows={"amqp.heartbeat_s": 2},  # a silent session is detected within five seconds
    local_rows={
        "hub.reconnect_s_min": 0.1,
        "hub.reconnect_s_max": 1.0,
        "protocol.pieces_from_bytes": PIECES_FROM,
    },
)


def other_members(side: str) -> tuple[str, ...]:
    return tuple(member for member in MEMBERS if member != side)


class CrashWorld:
    """All processes of a campaign."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        secure: bool = False,
        cluster: bool = False,
        rabbitmq: bool = False,
        direct: bool = False,
    ) -> None:
        """``secure``: links with TLS and certificates, most documents sealed. ``rabbitmq`` needs ``cluster``,
        ``direct`` needs ``secure``."""
        self.folder = folder
        self.direct = direct
        self.secure = secure
        self.cluster = cluster
        self.rabbitmq = rabbitmq
        #: By name of the store: database URLs of the second instance, also of retired stores.
        self.second_urls: dict[str, str] = {}
        self.store_number = 2  #: semq_id and semq_db_id of the second instance's present store
        self.complaints: list[str] = []
        self.certificate_changes = CertificateChanges(ADDRESS, OTHER, receivers=(C,))
        #: Proxy | process.
        self._targets = (
            RABBITMQ_PROXIES if rabbitmq else CLUSTER_PROXIES if cluster else DIRECT_PROXIES if direct else PROXIES
        )
        self.proxies = {name: Proxy() for name in self._targets}
        self.nodes: dict[str, CrashProcess] = {}
        self.brokers: dict[str, BrokerProcess] = {}
        #: Postgres server of the second instance and its standby.
        self.server = SharedServer(folder / "store-2") if cluster else None
        self.streams = {
            side: DocumentStream(seed, side, OTHER[side], sealed=secure, members=other_members(side)) for side in SIDES
        }
        self.books = {member: Book(folder / f"{member}.book") for member in MEMBERS}
        self.submitters: dict[str, Submitter] = {}
        self.consumers: dict[str, DocumentConsumer] = {}
        self._seed = seed
        self._resources = ExitStack()

    @property
    def processes(self) -> dict[str, CrashProcess | BrokerProcess]:
        return {**self.nodes, **self.brokers}

    @property
    def store_names(self) -> tuple[str, ...]:
        """The names of all stores, also retired ones."""
        return HUB, *self.second_urls, *MEMBERS

    def database(self, store: str) -> str | None:
        """Return the URL of a store; None while the server does not run."""
        if self.server is None or store not in self.second_urls:
            return self.nodes[store].postgres.running_url()
        return self.second_urls[store] if self.server.postgres.pid is not None else None

    def store(self, hub: str) -> str:
        """Return the present store of a hub instance, as in locators."""
        return "1.1" if hub == HUB else f"{self.store_number}.{self.store_number}"

    def serving_process(self, name: str) -> CrashProcess:
        """Return the process that serves this node's store: the node or the standby."""
        node = self.nodes[name]
        return node.other if node.other is not None and node.other.owns_store else node

    async def start(self) -> None:
        """Start all processes and applications; return when all nodes serve."""
        await self.prepare()
        for broker in self.brokers.values():
            broker.begin()
        self.nodes[HUB].begin()
        await self.nodes[HUB].wait_until_serving()
        if self.secure:
            for member in MEMBERS:
                await self.enrol(member)
        await node_requests.ask(self.nodes[HUB], "definitions.import", document=DEFINITIONS)
        for name, node in self.nodes.items():
            if name != HUB:
                node.begin()
        await self.wait_until_ready()
        for member in MEMBERS:
            place = self.nodes[member].place
            scheme, trust = ("amqps", place.data_dir / "pki" / "trust.pem") if place.tls else ("amqp", None)
            url = f"{scheme}://app:{PASSWORD}@127.0.0.1:{self.proxies[f'app-{member}'].port}/"
            chance = Random(f"{self._seed}/consumer/{member}")
            self.consumers[member] = DocumentConsumer(url, self.books[member], chance, self.complaints, trust)
            self.consumers[member].start()
            if member in SIDES:
                self.submitters[member] = Submitter(
                    url, self.streams[member], ADDRESS[OTHER[member]], GROUP, PAUSE_S[member], self.complaints, trust
                )
                self.submitters[member].start()

    async def prepare(self) -> None:
        """Start the proxies and the shared server, and write the configurations. The processes are not started yet."""
        for proxy in self.proxies.values():
            await proxy.start()
        if self.rabbitmq:
            mapper = self._resources.enter_context(port_mapper())
            nodes = cluster_nodes(self.folder, mapper, len(BROKERS), PLAN.login)
            self.brokers = {name: BrokerProcess(name, node) for name, node in zip(BROKERS, nodes, strict=True)}
        links = {
            name: [self.proxies[proxy].port for proxy in proxies if proxy in self.proxies]
            for name, proxies in {
                A: ("link-a", "other-a", "standby-a"), B: ("link-b", "other-b", "standby-b"),
            }.items()
        }  # fmt: skip
        for hub, way in WAYS.items() if self.cluster else ():
            links[hub] = [self.proxies[way].port]
            links[hub] += [broker.port for name, broker in self.brokers.items() if name != self._targets[way]]
        if self.direct:
            links[DIRECT] = [self.proxies[DIRECT].port]
        carrier_url = f"amqp://127.0.0.1:{self.brokers[BROKERS[0]].port}" if self.rabbitmq else ""
        shared = ""
        if self.server is not None:
            shared = self.second_urls[HUB_2] = await self.server.start()
        installation = replace(
            PLAN, secure=self.secure, direct=SIDES if self.direct else None, instances=2 if self.cluster else 1,
            carrier=carrier_url, shared_database=shared,
        )  # fmt: skip
        places = installation.write(self.folder, links)
        self.nodes = {name: CrashProcess(place, self.complaints) for name, place in places.items()}
        if self.server is not None:
            first, second = self.nodes[HUB_2], self.nodes[STANDBY]
            first.other, second.other = second, first
            first.postgres = second.postgres = self.server.postgres
        for name, process in self.processes.items():
            self._connect_proxies(process, *(proxy for proxy, target in self._targets.items() if target == name))

    async def wait_until_ready(self) -> None:
        """Wait until all nodes serve. Raises TimeoutError."""
        await asyncio.gather(*(process.wait_until_serving() for process in self.processes.values()))

    async def enrol(self, member: str) -> None:
        """Get a certificate for a node; the node uses it from its next start."""
        await node_requests.repeat_until_done(lambda: ensure_enrolled(self.nodes[HUB], self.nodes[member], again=True))

    async def remove_interrupted_pieces(self) -> None:
        """Let nodes remove the pieces of interrupted uploads now."""
        for side in SIDES:  # c receives no pieces
            await node_requests.ask(self.nodes[side], "job.run", name="remains")

    async def replace_second_store(self) -> None:
        """Give the second instance and its standby, both stopped, another store, in a new database of their server."""
        assert self.server is not None
        former, number = self.second_urls[HUB_2], self.store_number + 1
        database = await node_requests.repeat_until_done(lambda: self._create_database(f"store_{number}"))
        for name in (HUB_2, STANDBY):
            file = self.nodes[name].place.config
            text = file.read_text("utf-8").replace(json.dumps(former), json.dumps(database))
            for key in ("semq_id", "semq_db_id"):
                text = text.replace(f"{key} = {self.store_number}\n", f"{key} = {number}\n")
            file.write_text(text, "utf-8")
        self.second_urls |= {f"{HUB_2} with {self.store(HUB_2)}": former, HUB_2: database}
        self.store_number = number

    async def stop(self) -> None:
        await self._end_applications()
        await asyncio.gather(*(node.stop() for node in self.nodes.values()))
        await asyncio.gather(*(broker.stop() for broker in self.brokers.values()))
        await self._end_proxies_and_books()

    async def remove(self) -> None:
        """End everything immediately."""
        await self._end_applications()
        await asyncio.gather(*(process.remove() for process in self.processes.values()))
        await self._end_proxies_and_books()

    async def _end_applications(self) -> None:
        for submitter in self.submitters.values():
            await submitter.stop()
        for consumer in self.consumers.values():
            await consumer.stop()

    async def _end_proxies_and_books(self) -> None:
        for proxy in self.proxies.values():
            await proxy.stop()
        for book in self.books.values():
            book.close()
        if self.server is not None:
            await self.server.stop()
        self._resources.close()

    # ------------------------------------------------------------ inside

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

    def _connect_proxies(self, node: CrashProcess | BrokerProcess, *proxies: str) -> None:
        """Let proxies lead to a node while it serves. Otherwise they reset connections."""

        def set_target(target: tuple[str, int] | None) -> None:
            for proxy in proxies:
                self.proxies[proxy].target = target

        node.on_ready = lambda: set_target(("127.0.0.1", node.port))
        node.on_end = lambda: set_target(None)
