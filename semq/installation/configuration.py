"""The configuration files of a hub and its institutions, in one folder.

Settings are rows, ``{"amqp.port": 0}``; callers add their own rows to those that every installation has.
"""

import json
import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

HUB = "hub"
PORTS = range(20_000, 32_000)  # of nodes
Value = str | int | float | bool | Sequence[str] | None  #: None: the table is written, the key is not
Rows = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class ApplicationLogin:
    """User and password of the applications, at every node."""

    user: str
    password: str


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The files of one node, and how its applications reach it."""

    name: str
    node_id: str
    folder: Path
    login: ApplicationLogin
    port: int = 0  #: 0: another one at each start
    tls: bool = False  #: on its port

    @property
    def kind(self) -> str:
        """``platform`` or ``local``."""
        return "platform" if self.name == HUB else "local"

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

    def url_at(self, port: int) -> str:
        """Return the AMQP URL for applications."""
        address = f"{self.login.user}:{self.login.password}@127.0.0.1:{port}"
        return f"amqps://{address}?cafile={self.data_dir / 'pki' / 'trust.pem'}" if self.tls else f"amqp://{address}"

    @property
    def url(self) -> str:
        """The AMQP URL for applications, if the port is a fixed one."""
        return self.url_at(self.port)


@dataclass(frozen=True, slots=True)
class InstallationPlan:
    """The nodes of an installation, and the rows of their configurations beside those that all installations have."""

    institutions: Mapping[str, str]  #: name of each node | its node id
    login: ApplicationLogin
    absent: Sequence[str] = ()  #: node ids that the hub knows, and that have no node
    secure: bool = False  #: links by TLS and certificate; the institutions have no passwords at the hub and must enrol
    every: Rows = field(default_factory=dict)  #: rows of every node
    hub: Rows = field(default_factory=dict)  #: rows of the hub
    local: Rows = field(default_factory=dict)  #: rows of each institution; ``{name}`` in a value is its name

    def write(self, folder: Path, links: Mapping[str, int] | None = None) -> dict[str, NodePlace]:
        """Write the files; return the places by name, the hub first, with ports that are free now.

        ``links``: ports to which institutions connect instead of the hub's own, by name.
        """
        folder.mkdir(parents=True, exist_ok=True)
        ids = {HUB: HUB, **self.institutions}
        places = {
            name: NodePlace(name, node_id, folder, self.login, port, tls=self.secure and name == HUB)
            for (name, node_id), port in zip(ids.items(), free_ports(len(ids)), strict=True)
        }
        for place in places.values():
            link = (links or {}).get(place.name, places[HUB].port)
            rows = self._rows_of_hub() if place.name == HUB else self._rows_of(place, link)
            place.config.write_text(toml({**self._common(place), **self.every, **rows}), "utf-8")
        return places

    def _common(self, place: NodePlace) -> dict[str, Value]:
        rows: dict[str, Value] = {"node.kind": place.kind, "node.id": place.node_id, "node.data_dir": place.name}
        rows |= {
            "amqp.host": "127.0.0.1",
            "amqp.port": place.port,
            f"amqp.users.{self.login.user}": self.login.password,
        }
        return {"amqp.tls": True, **rows} if place.tls else rows

    def _rows_of_hub(self) -> dict[str, Value]:
        known = [*self.institutions.values(), *self.absent]
        return {f"nodes.{node_id}.password": self._password(node_id) for node_id in known} | dict(self.hub)

    def _rows_of(self, place: NodePlace, link: int) -> dict[str, Value]:
        scheme = "amqps" if self.secure else "amqp"
        rows: dict[str, Value] = {"hub.url": f"{scheme}://127.0.0.1:{link}"}
        rows["hub.password"] = self._password(place.node_id)
        for key, value in self.local.items():
            rows[key] = value.replace("{name}", place.name) if isinstance(value, str) else value
        return rows

    def _password(self, node_id: str) -> str | None:
        return None if self.secure else f"of {node_id}"


def toml(rows: Rows) -> str:
    """Return rows as TOML, a table for each prefix."""
    tables: dict[str, list[str]] = {}
    for key, value in rows.items():
        table, _, name = key.rpartition(".")
        lines = tables.setdefault(table, [])
        if value is not None:
            lines.append(f"{name} = {json.dumps(value)}\n")
    return "\n".join(f"[{table}]\n{''.join(lines)}" for table, lines in tables.items())


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
