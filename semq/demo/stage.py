"""The set: a folder with the configuration of three nodes, on ports that were free a moment ago."""

import socket
from dataclasses import dataclass
from pathlib import Path

SENDER, RECEIVER, HUB = "10008", "56001", "hub"
EXTRACTS, REPORTS = "extracts", "reports"  # folders of the reconciliation, beside the hub
COLLECTOR = "reports"  # user of 56001 to whom extracts go, where they travel as documents
USER = PASSWORD = "demo"  # of an application on the loopback address of a demo

_NODE = """\
[node]
kind = "{kind}"
id = "{name}"
data_dir = "{name}"

[amqp]
host = "127.0.0.1"
port = {port}
users = {{ {user} = "{password}" }}

[protocol]
inquiry_s = 2.0     # 15 by default: the demo has no time
cleanup_s = 0.2

[extract]
folder = "{EXTRACTS}"
cutoff = "{cutoff}"  # far from now, so that all of the demo lies in one business date

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
_PLATFORM = """
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
class Place:
    """One node: where it lives and how it is reached."""

    name: str
    kind: str
    folder: Path
    port: int
    tls: bool = False  #: on its port

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.folder / f"{self.name}.toml"

    @property
    def log(self) -> Path:
        """Where its standard error goes."""
        return self.folder / f"{self.name}.log"

    @property
    def data_dir(self) -> Path:
        """Where its database lies."""
        return self.folder / self.name

    @property
    def url(self) -> str:
        """For its applications."""
        if not self.tls:
            return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{self.port}"
        return f"amqps://{USER}:{PASSWORD}@127.0.0.1:{self.port}?cafile={self.data_dir / 'pki' / 'trust.pem'}"


def build(folder: Path, hour: int = 12, *, secure: bool = False) -> dict[str, Place]:
    """Write the configuration of hub and institutions into a folder; where they are, by name.

    ``hour``: which it is now, UTC. ``secure``: links by TLS and certificate; the institutions have no passwords at the
    hub, and have to enrol.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ports = free_ports(3)
    kinds = {HUB: "platform", SENDER: "local", RECEIVER: "local"}
    cutoff = f"{(hour + 12) % 24:02d}:00"
    places = {
        name: Place(name, kind, folder, port, tls=secure and name == HUB)
        for (name, kind), port in zip(kinds.items(), ports, strict=True)
    }
    known = {
        "SENDER": SENDER, "RECEIVER": RECEIVER, "EXTRACTS": EXTRACTS, "REPORTS": REPORTS, "cutoff": cutoff,
        "user": USER, "password": PASSWORD, "hub": places[HUB].port,
    }  # fmt: skip
    for place in places.values():
        text = _NODE + (_PLATFORM if place.kind == "platform" else _LOCAL)
        text = text.format(kind=place.kind, name=place.name, port=place.port, **known)
        if secure:
            text = _secured(text, place)
        place.config.write_text(text, "utf-8")
    return places


def _secured(text: str, place: Place) -> str:
    """With certificates instead of passwords; extracts travel as signed documents, and none without is believed."""
    text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("password"))
    if place.kind == "platform":
        text = text.replace("[amqp]\n", "[amqp]\ntls = true\n")
        return text.replace("[reconcile]\n", f'[reconcile]\ntrust = "{place.name}/pki/trust.pem"\n')
    text = text.replace('url = "amqp://', 'url = "amqps://')
    own = f'folder = "{place.name}-extracts"\ndeliver_to = "{RECEIVER}/{COLLECTOR}"\n'
    return text.replace(f'folder = "{EXTRACTS}"\n', own)


def free_ports(count: int) -> list[int]:
    """So many different ports of the loopback address that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
