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

import json
from contextlib import ExitStack
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import psycopg
from msgspec.structs import replace
from psycopg import sql

from bench.rabbitmq.server import cluster_nodes, port_mapper
from semq.installation.configuration import CARRIER, DIRECT, HUB, STANDBY, ApplicationLogin, InstallationPlan
from tests.crash import node_requests
from tests.crash.application import DocumentConsumer, Submitter
from tests.crash.book import Book
from tests.crash.documents import PIECES_FROM, DocumentStream
from tests.crash.excuses import CertificateChanges
from tests.crash.installation import HUB_2, Installation
from tests.crash.rabbitmq import BrokerProcess

A, B, C = "a", "b", "c"
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


class CrashWorld(Installation):
    """The installation of a crash campaign, and its applications."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        secure: bool = False,
        cluster: bool = False,
        rabbitmq: bool = False,
        direct: bool = False,
        root: Path | None = None,
    ) -> None:
        """``secure``: links with TLS and certificates, most documents sealed. ``rabbitmq`` needs ``cluster``,
        ``direct`` needs ``secure``. ``root``: of RabbitMQ (``bench.rabbitmq.debian``); None: that of the system."""
        targets = (
            RABBITMQ_PROXIES if rabbitmq else CLUSTER_PROXIES if cluster else DIRECT_PROXIES if direct else PROXIES
        )
        super().__init__(folder, targets, ADDRESS, cluster=cluster)
        self.direct = direct
        self.secure = secure
        self.rabbitmq = rabbitmq
        self._root = root
        self.certificate_changes = CertificateChanges(ADDRESS, OTHER, receivers=(C,))
        self.streams = {
            side: DocumentStream(seed, side, OTHER[side], sealed=secure, members=other_members(side)) for side in SIDES
        }
        self.books = {member: Book(folder / f"{member}.book") for member in MEMBERS}
        self.submitters: dict[str, Submitter] = {}
        self.consumers: dict[str, DocumentConsumer] = {}
        self._seed = seed
        self._resources = ExitStack()

    async def start(self) -> None:
        """Start all processes and applications; return when all nodes serve."""
        await self.prepare()
        await self.start_nodes(MEMBERS if self.secure else (), DEFINITIONS)
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
        await self.start_proxies()
        if self.rabbitmq:
            mapper = self._resources.enter_context(port_mapper(self._root))
            nodes = cluster_nodes(self._home_of_rabbitmq(), mapper, len(BROKERS), PLAN.login, self._root)
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
        shared = await self.start_server()
        installation = replace(
            PLAN, secure=self.secure, direct=SIDES if self.direct else None, instances=2 if self.cluster else 1,
            carrier=carrier_url, shared_database=shared,
        )  # fmt: skip
        self.add_nodes(installation.write(self.folder, links))

    def _home_of_rabbitmq(self) -> Path:
        """Return the folder of RabbitMQ's nodes."""
        if self._root is None:
            return self.folder
        home = TemporaryDirectory(prefix="rabbitmq-", dir=self._root / "var/tmp", ignore_cleanup_errors=True)
        return Path(self._resources.enter_context(home))

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
        await self.stop_processes()
        await self._end_proxies_and_books()

    async def remove(self) -> None:
        """End everything immediately."""
        await self._end_applications()
        await self.remove_processes()
        await self._end_proxies_and_books()

    async def _end_applications(self) -> None:
        for submitter in self.submitters.values():
            await submitter.stop()
        for consumer in self.consumers.values():
            await consumer.stop()

    async def _end_proxies_and_books(self) -> None:
        await self.end_proxies_and_server()
        for book in self.books.values():
            book.close()
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
