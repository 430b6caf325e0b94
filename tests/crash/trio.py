"""An installation of a hub and three institutions, with proxies on links, for tests that kill one process at a time.

application ─ a ─ link-a ─ hub ─ link-b ─ b ─ app-b ─ application        c, like a
"""

from pathlib import Path

from msgspec.structs import replace

from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan
from tests.crash.installation import Installation

A, B, C = "a", "b", "c"
MEMBERS = (A, B, C)
ADDRESS = {A: "1.10008", B: "1.56001", C: "1.88001"}
DEFINITIONS = """
[groups.all]
members = ["10008", "56001", "88001"]
[[agreements]]
from = ["*"]
to = ["*"]
"""
PIECES_FROM = 1 << 20  # larger documents are sent in pieces
PROXIES = {"link-a": HUB, "link-b": HUB, "app-b": B}  # proxy | node
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


class ProcessTrio(Installation):
    """The installation. ``secure``: links with TLS and certificates."""

    def __init__(self, folder: Path, *, secure: bool = False) -> None:
        super().__init__(folder, PROXIES, ADDRESS, cluster=False)
        self._secure = secure

    async def start(self) -> None:
        """Start all processes; return when all nodes serve."""
        await self.prepare()
        await self.start_nodes(MEMBERS if self._secure else (), DEFINITIONS)

    async def prepare(self) -> None:
        """Start the proxies and write the configurations. The processes are not started yet."""
        await self.start_proxies()
        links = {side: [self.proxies[f"link-{side}"].port] for side in (A, B)}
        self.add_nodes(replace(PLAN, secure=self._secure).write(self.folder, links))

    async def remove(self) -> None:
        """End everything immediately."""
        await self.remove_processes()
        await self.end_proxies_and_server()
