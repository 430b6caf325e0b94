"""The installation under test: a hub and two institutions as real processes, proxies on all links, applications on both
sides.

    application ─ app-a ─ a ─ link-a ─ hub ─ link-b ─ b ─ app-b ─ application

Made and taken down by ``campaign``; ``faults`` does harm to it, ``oracle`` looks into its databases.
"""

import asyncio
from pathlib import Path
from random import Random

from tests.crash import certificates
from tests.crash.application import DocumentTaker, Submitter
from tests.crash.book import Book
from tests.crash.documents import DocumentStream
from tests.crash.excuses import CertificateChanges
from tests.crash.process import CrashProcess
from tests.crash.proxy import Proxy

HUB, A, B = "hub", "a", "b"
NODES = (HUB, A, B)
SIDES = (A, B)
OTHER = {A: B, B: A}
ADDRESS = {A: "1.10008", B: "1.56001"}
PAUSE_S = {A: 0.2, B: 0.6}  # between two documents of a lane: most go from A to B
PASSWORD = "only-for-tests"

# The timers of PROTOCOL.md section 13, short, so that what is in doubt is settled while somebody watches.
TIMERS = """
[protocol]
inquiry_s = 0.5
inquiry_s_max = 1.5
inquiry_custody_s_max = 1.5
cleanup_s = 0.2
"""
HUB_TOML = """
[node]
kind = "platform"
id = "hub"
data_dir = "hub"

[amqp]
port = 0
heartbeat_s = 2     # a session that hangs is found out within some five seconds

[nodes.10008]
password = "{password}"

[nodes.56001]
password = "{password}"
"""
LOCAL_TOML = """
[node]
kind = "local"
id = "{id}"
data_dir = "{name}"

[amqp]
port = 0
users = {{ app = "{password}" }}

[hub]
url = "amqp://127.0.0.1:{hub_port}"
password = "{password}"
reconnect_s_min = 0.1
reconnect_s_max = 1.0
"""


class CrashWorld:
    """Everything that a campaign runs."""

    def __init__(self, folder: Path, seed: int, *, secure: bool = False) -> None:
        """``secure``: links by TLS and certificate, most documents sealed."""
        self.folder = folder
        self.secure = secure
        self.complaints: list[str] = []
        self.changes = CertificateChanges(ADDRESS, OTHER)
        self.proxies = {name: Proxy(name) for name in ("link-a", "link-b", "app-a", "app-b")}
        self.nodes = {
            HUB: CrashProcess(HUB, "platform_node", folder / "hub.toml", folder / HUB, self.complaints),
            A: CrashProcess(A, "local_node", folder / "a.toml", folder / A, self.complaints),
            B: CrashProcess(B, "local_node", folder / "b.toml", folder / B, self.complaints),
        }
        self.streams = {side: DocumentStream(seed, side, OTHER[side], sealed=secure) for side in SIDES}
        self.books = {side: Book(folder / f"{side}.book") for side in SIDES}
        self.submitters: dict[str, Submitter] = {}
        self.consumers: dict[str, DocumentTaker] = {}
        self._seed = seed

    async def start(self) -> None:
        """Until all three nodes serve and the applications run."""
        for proxy in self.proxies.values():
            await proxy.start()
        self._configure()
        self._wire(HUB, "link-a", "link-b")
        self._wire(A, "app-a")
        self._wire(B, "app-b")
        if self.secure:
            self.nodes[HUB].start()
            await self.nodes[HUB].ready()
            for side in SIDES:
                await self.enrol(side)
        for node in self.nodes.values():
            if not node.is_ready:
                node.start()
        await self.ready()
        for side in SIDES:
            url = f"amqp://app:{PASSWORD}@127.0.0.1:{self.proxies[f'app-{side}'].port}/"
            target = ADDRESS[OTHER[side]]
            self.submitters[side] = Submitter(url, self.streams[side], target, PAUSE_S[side], self.complaints)
            chance = Random(f"{self._seed}/consumer/{side}")
            self.consumers[side] = DocumentTaker(url, self.books[side], chance, self.complaints)
            self.submitters[side].start()
            self.consumers[side].start()

    async def ready(self) -> None:
        """Until all three nodes serve. Raises TimeoutError."""
        await asyncio.gather(*(node.ready() for node in self.nodes.values()))

    async def enrol(self, side: str) -> None:
        """Get a certificate for an institution's node, which takes it at its next start."""
        await certificates.enrolled(self.folder / side, ADDRESS[side], lambda: self.nodes[HUB].port, self.hub_url)

    def hub_url(self) -> str:
        """For administrators of the hub, as it runs now."""
        trust = self.folder / HUB / "pki" / "trust.pem"
        return f"amqps://guest:guest@127.0.0.1:{self.nodes[HUB].port}/?cafile={trust}"

    def node_url(self, side: str) -> str:
        """For administrators of an institution's node, as it runs now."""
        return f"amqp://app:{PASSWORD}@127.0.0.1:{self.nodes[side].port}/"

    async def stop(self) -> None:
        """End everything in order."""
        await self._end_applications()
        await asyncio.gather(*(node.stop() for node in self.nodes.values()))
        await self._end_rest()

    async def remove(self) -> None:
        """End everything at once; nothing stays behind."""
        await self._end_applications()
        await asyncio.gather(*(node.remove() for node in self.nodes.values()))
        await self._end_rest()

    async def _end_applications(self) -> None:
        for submitter in self.submitters.values():
            await submitter.stop()
        for consumer in self.consumers.values():
            await consumer.stop()

    async def _end_rest(self) -> None:
        for proxy in self.proxies.values():
            await proxy.stop()
        for book in self.books.values():
            book.close()

    # ------------------------------------------------------------ inside

    def _configure(self) -> None:
        (self.folder / "hub.toml").write_text(self._secured(HUB_TOML.format(password=PASSWORD)) + TIMERS)
        for side in SIDES:
            node_id = ADDRESS[side].partition(".")[2]
            port = self.proxies[f"link-{side}"].port
            text = LOCAL_TOML.format(id=node_id, name=side, hub_port=port, password=PASSWORD)
            (self.folder / f"{side}.toml").write_text(self._secured(text) + TIMERS)

    def _secured(self, config: str) -> str:
        if not self.secure:
            return config
        without = "".join(line for line in config.splitlines(keepends=True) if not line.startswith("password"))
        if 'kind = "platform"' in config:
            return without.replace("[amqp]\n", "[amqp]\ntls = true\n")
        return without.replace('"amqp://', '"amqps://')

    def _wire(self, name: str, *proxies: str) -> None:
        """Proxies lead to a node's port, which is another one after each start, and nowhere while it is gone."""
        node = self.nodes[name]

        def lead(target: tuple[str, int] | None) -> None:
            for proxy in proxies:
                self.proxies[proxy].target = target

        node.on_ready = lambda: lead(("127.0.0.1", node.port))
        node.on_end = lambda: lead(None)
