"""A hub and two institutions for tests: real processes with databases of their own; a third institution never comes."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from semq.app import Client
from semq.demo.configuration import NodePlace, free_ports
from semq.demo.process import lock_holder
from semq.store.embedded.server import EmbeddedPostgres

ABSENT = "77001"  # known to the hub, never online
STRANGER = "88001"  # known to the hub; 10008 has no agreement with it
DOCUMENT_MAX = 3 * 1024 * 1024

COMMON = """\
[node]
kind = "{kind}"
id = "{name}"
data_dir = "{name}"

[amqp]
port = {port}
users = {{ app = "secret" }}
max_message_bytes = 4_000_000

[protocol]
inquiry_s = 1.0
cleanup_s = 0.1
max_document_bytes = 3145728

"""
LOCAL = """\
[hub]
url = "amqp://127.0.0.1:{hub}"
password = "of {name}"
reconnect_s_min = 0.1
reconnect_s_max = 0.5
"""
HUB_CONFIG = """\
[nodes."10008"]
password = "of 10008"
may_send_to = ["56001", "10008", "77001"]

[nodes."56001"]
password = "of 56001"

[nodes."77001"]
password = "never used"

[nodes."88001"]
password = "never used"
"""


class NetworkNode:
    """One node's process."""

    def __init__(self, place: NodePlace) -> None:
        self.place = place
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"amqp://app:secret@127.0.0.1:{self.place.port}"

    @property
    def database(self) -> str:
        return EmbeddedPostgres(self.place.data_dir).url

    def start(self) -> None:
        """Until it serves."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """Start the process."""
        module = {"platform": "platform_node", "local": "local_node"}[self.place.kind]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SEMQ_")}
        with self.place.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, "--config", str(self.place.config)],
                stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
            )  # fmt: skip

    def await_ready(self) -> None:
        """Until it serves."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready "), self.place.log.read_text()

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal and wait for the end."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait()
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def clear(self) -> None:
        """End it and its database server."""
        self.end()
        assert lock_holder(self.place.data_dir / "postgres" / "lock") is None
        EmbeddedPostgres(self.place.data_dir).stop()


class Network:
    """The three nodes."""

    def __init__(self, folder: Path) -> None:
        ports = dict(zip(("hub", "10008", "56001"), free_ports(3), strict=True))
        self.nodes: dict[str, NetworkNode] = {}
        for name, port in ports.items():
            kind = "platform" if name == "hub" else "local"
            place = NodePlace(name, kind, folder, port)
            rest = HUB_CONFIG if name == "hub" else LOCAL.format(name=name, hub=ports["hub"])
            place.config.write_text(COMMON.format(kind=kind, name=name, port=port) + rest)
            self.nodes[name] = NetworkNode(place)

    @property
    def hub(self) -> NetworkNode:
        return self.nodes["hub"]

    @property
    def sender(self) -> NetworkNode:
        return self.nodes["10008"]

    @property
    def receiver(self) -> NetworkNode:
        return self.nodes["56001"]


@contextmanager
def running(folder: Path) -> Iterator[Network]:
    """A network that runs."""
    network = Network(folder)
    with ExitStack() as exits:
        for node in network.nodes.values():
            exits.callback(node.clear)
            node.launch()
        for node in network.nodes.values():
            node.await_ready()
        asyncio.run(_until_linked(network))
        yield network


async def _until_linked(network: Network) -> None:
    async with Client(network.sender.url) as client:
        # A node that has no link yet accepts and sends later; only then does the first document come back from there.
        sent = await client.send("56001/nobody", b"the first one")
        await client.wait_for_delivery(sent.lk0)
