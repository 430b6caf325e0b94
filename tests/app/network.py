"""A hub and two institutions as processes with their own databases; two more institutions are always offline."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from semq.app import Client
from semq.installation.configuration import HUB, ApplicationLogin, InstallationPlan
from semq.installation.process import NodeProcess

ABSENT = "77001"  # known to the hub, never online
STRANGER = "88001"  # known to the hub; 10008 has no agreement with it
DOCUMENT_MAX = 3 * 1024 * 1024
PLAN = InstallationPlan(
    {"10008": "10008", "56001": "56001"},
    ApplicationLogin("app", "secret"),
    absent=(ABSENT, STRANGER),
    common_rows={
        "amqp.max_message_bytes": 4_000_000,
        "protocol.inquiry_s": 1.0,
        "protocol.cleanup_s": 0.1,
        "protocol.max_document_bytes": DOCUMENT_MAX,
    },
    hub_rows={"nodes.10008.may_send_to": ["56001", "10008", ABSENT]},
    local_rows={"hub.reconnect_s_min": 0.1, "hub.reconnect_s_max": 0.5},
)


class Network:
    """The three nodes."""

    def __init__(self, folder: Path) -> None:
        self.nodes = {name: NodeProcess(place) for name, place in PLAN.write(folder).items()}

    @property
    def hub(self) -> NodeProcess:
        return self.nodes[HUB]

    @property
    def sender(self) -> NodeProcess:
        return self.nodes["10008"]

    @property
    def receiver(self) -> NodeProcess:
        return self.nodes["56001"]

    def start(self, exits: ExitStack) -> None:
        """Start the nodes; ``exits`` ends them when it is closed."""
        for node in self.nodes.values():
            exits.callback(end_and_check, node)
            node.launch()
        for node in self.nodes.values():
            node.ensure_ready()


def end_and_check(node: NodeProcess) -> None:
    """End a node; check that no other process holds its data directory."""
    node.end()
    assert node.lock_holder() is None
    node.end_with_database()


@contextmanager
def running(folder: Path) -> Iterator[Network]:
    """Yield a running network whose links are up; end its nodes afterwards."""
    network = Network(folder)
    with ExitStack() as exits:
        network.start(exits)
        asyncio.run(_until_linked(network))
        yield network


async def _until_linked(network: Network) -> None:
    async with Client(network.sender.url) as client:
        # The delivery of a document shows that both links are up.
        sent = await client.send("56001/nobody", b"the first one")
        await client.wait_for_delivery(sent.lk0)
