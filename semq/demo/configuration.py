"""The configuration files of the three nodes, in one folder, with ports that are free when they are written."""

import random
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SENDER, RECEIVER, HUB = "10008", "56001", "hub"
EXTRACTS, REPORTS = "extracts", "reports"  # folders of the reconciliation, beside the hub's
COLLECTOR = "reports"  # user of 56001 who receives the extracts that travel as documents
PORTS = range(20_000, 32_000)  # of the demo's nodes
LOGIN = "demo"  # user and password of the applications

_NODE = """\
[node]
kind = "{kind}"
id = "{name}"
data_dir = "{name}"

[amqp]
host = "127.0.0.1"
port = {port}
users = {{ {LOGIN} = "{LOGIN}" }}

[protocol]
inquiry_s = 2.0     # 15 by default: the demo is short
cleanup_s = 0.2

[extract]
folder = "{EXTRACTS}"
cutoff = "{cutoff}"  # far from now, so that the demo is within one business date

[log]
format = "json"
"""
_LOCAL = """
[hub]
url = "amqp://127.0.0.1:{hub}"
password = "demo-{name}"
reconnect_s_min = 0.1
reconnect_s_max = 1.0
"""
_HUB = """
[nodes."{SENDER}"]
password = "demo-{SENDER}"

[nodes."{RECEIVER}"]
password = "demo-{RECEIVER}"

[reconcile]
extracts = "{EXTRACTS}"
reports = "{REPORTS}"
cutoff = "{cutoff}"
in_flight_s = 5  # 900 by default
"""


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The files and the address of one node."""

    name: str
    kind: str
    folder: Path
    port: int
    tls: bool = False  #: on its port

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / f"{self.name}.toml"

    @property
    def log(self) -> Path:
        """The file with the node's standard error."""
        return self.folder / f"{self.name}.log"

    @property
    def data_dir(self) -> Path:
        """The node's data directory."""
        return self.folder / self.name

    @property
    def url(self) -> str:
        """The AMQP URL for applications."""
        address = f"{LOGIN}:{LOGIN}@127.0.0.1:{self.port}"
        return f"amqps://{address}?cafile={self.data_dir / 'pki' / 'trust.pem'}" if self.tls else f"amqp://{address}"


def write_configuration(folder: Path, hour: int = 12, *, secure: bool = False) -> dict[str, NodePlace]:
    """Write the configuration of hub and institutions; return their places by name.

    ``hour``: the present hour, UTC. ``secure``: links by TLS and certificate; the institutions have no passwords at the
    hub and must enrol.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kinds = {HUB: "platform", SENDER: "local", RECEIVER: "local"}
    places = {
        name: NodePlace(name, kind, folder, port, tls=secure and name == HUB)
        for (name, kind), port in zip(kinds.items(), free_ports(len(kinds)), strict=True)
    }
    values = {
        "SENDER": SENDER, "RECEIVER": RECEIVER, "EXTRACTS": EXTRACTS, "REPORTS": REPORTS, "LOGIN": LOGIN,
        "cutoff": f"{(hour + 12) % 24:02d}:00", "hub": places[HUB].port,
    }  # fmt: skip
    for place in places.values():
        text = _NODE + (_HUB if place.kind == "platform" else _LOCAL)
        text = text.format(kind=place.kind, name=place.name, port=place.port, **values)
        place.config.write_text(_secured(text, place) if secure else text, "utf-8")
    return places


def _secured(text: str, place: NodePlace) -> str:
    """Replace passwords by certificates, and let signed extracts travel as documents."""
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("password"))
    if place.kind == "platform":
        text = text.replace("[amqp]\n", "[amqp]\ntls = true\n")
        return text.replace("[reconcile]\n", f'[reconcile]\ntrust = "{place.name}/pki/trust.pem"\n')
    text = text.replace('url = "amqp://', 'url = "amqps://')
    own = f'folder = "{place.name}-extracts"\ndeliver_to = "{RECEIVER}/{COLLECTOR}"\n'
    return text.replace(f'folder = "{EXTRACTS}"\n', own)


def free_ports(count: int) -> list[int]:
    """Return different free ports of the loopback address.

    They are below those that the system gives to outgoing connections: one of these could be taken before it is used.
    """
    found: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            break
    return found
