"""The configuration files of a hub and its institutions, in one folder.

Settings are rows, ``{"amqp.port": 0}``; callers add their own rows to those that every installation has.
"""

import json
import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from semq.store.embedded.server import EmbeddedPostgres

HUB = "hub"
CARRIER = "carrier"
STANDBY = "standby"
DIRECT = "direct"
PORTS = range(20_000, 32_000)  # ports of nodes
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
        return "platform" if self.node_id == HUB else "local"

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
        owner = HUB if self.node_id == HUB else self.name  # all processes of the hub share the keys of the first one
        trust = self.folder / owner / "pki" / "trust.pem"
        return f"amqps://{address}?cafile={trust}" if self.tls else f"amqp://{address}"

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
    has_hub: bool = True  #: false: ``direct`` only, with certificates that ``enrolment.certified`` installs
    secure: bool = False  #: links by TLS and certificate; the institutions have no passwords at the hub and must enrol
    #: two institutions with a direct link, with ``secure``: the first dials, with the pauses of ``local`` for the hub
    direct: tuple[str, str] | None = None
    instances: int = 1  #: number of instances of the hub
    carrier: str = ""  #: URL of the AMQP broker between instances; if empty, it is one more node, named ``carrier``
    shared: str = ""  #: URL of a database: the store of the last instance, and of one more process, ``standby``
    every: Rows = field(default_factory=dict)  #: rows of every node
    hub: Rows = field(default_factory=dict)  #: rows of the hub
    local: Rows = field(default_factory=dict)  #: rows of each institution; ``{name}`` in a value is its name

    @property
    def hubs(self) -> tuple[str, ...]:
        """The names of the hub's instances."""
        return (HUB, *(f"{HUB}-{number}" for number in range(2, self.instances + 1))) if self.has_hub else ()

    def write(self, folder: Path, links: Mapping[str, Sequence[int]] | None = None) -> dict[str, NodePlace]:
        """Write the files; return the places by name, the hub first, with ports that are free now.

        The first instance of several must serve before the others are started: its database is the control database.
        ``links``: by name, ports to which institutions connect instead of those of the hub, and instances instead of
        that of the carrier; ``direct``: the port to which the first node of the direct link connects.
        """
        folder.mkdir(parents=True, exist_ok=True)
        ids = dict.fromkeys(self._processes_of_hub(), HUB) | dict(self.institutions)
        if self.instances > 1 and not self.carrier:
            ids[CARRIER] = CARRIER
        places = {
            name: NodePlace(name, node_id, folder, self.login, port, tls=self._has_tls(name, node_id))
            for (name, node_id), port in zip(ids.items(), free_ports(len(ids)), strict=True)
        }
        ports = self._ports(places) | dict(links or {})
        direct = self._direct(places, ports.get(DIRECT))
        for place in places.values():
            rows = self._rows_of_hub() if place.node_id == HUB else self._rows_of(place, ports[place.name])
            if self.instances > 1 and place.node_id == HUB:
                rows |= self._rows_of_instance(place, ports.get(place.name, ()))
            place.config.write_text(
                toml({**self._common(place), **self.every, **rows, **direct.get(place.name, {})}), "utf-8"
            )
        return places

    def _processes_of_hub(self) -> tuple[str, ...]:
        return (*self.hubs, STANDBY) if self.shared else self.hubs

    def _has_tls(self, name: str, node_id: str) -> bool:
        return self.secure and (node_id == HUB or (self.direct is not None and name == self.direct[1]))

    def _direct(self, places: Mapping[str, NodePlace], ports: Sequence[int] | None) -> dict[str, Rows]:
        """Return the rows of the direct link at both ends, by name; ``ports``: those of a proxy."""
        if self.direct is None:
            return {}
        dialling, listening = (places[name] for name in self.direct)
        to, urls = f"direct.{listening.node_id}", [f"amqps://127.0.0.1:{port}" for port in ports or [listening.port]]
        pauses = {key.replace("hub", to): value for key, value in self.local.items() if key.startswith("hub.reconnect")}
        return {
            dialling.name: {f"{to}.urls": urls, **pauses},
            listening.name: {f"direct.{dialling.node_id}.urls": []},
        }

    def _ports(self, places: Mapping[str, NodePlace]) -> dict[str, Sequence[int]]:
        """Return the ports that each node connects to: the institutions are spread over the instances of the hub."""
        hubs = [places[name].port for name in self.hubs]
        standby = [places[STANDBY].port] if self.shared else []
        ports: dict[str, Sequence[int]] = {CARRIER: [1]}  # it has no hub
        if CARRIER in places:
            ports |= {name: [places[CARRIER].port] for name in self._processes_of_hub()}
        for number, name in enumerate(self.institutions):
            first = number % max(len(hubs), 1)
            ports[name] = [*hubs[first:], *hubs[:first], *standby]
        return ports

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

    def _rows_of_instance(self, place: NodePlace, carrier: Sequence[int]) -> dict[str, Value]:
        number = self.instances if place.name == STANDBY else self.hubs.index(place.name) + 1
        rows: dict[str, Value] = {"node.semq_id": number, "node.semq_db_id": number}
        if self.shared and number == self.instances:
            rows["database.url"] = self.shared
        rows["cluster.carrier"] = [replace(place, tls=False).url_at(port) for port in carrier] or [self.carrier]
        if number > 1:
            with EmbeddedPostgres(place.folder / HUB) as control:  # its URL is known when it has run once
                rows["cluster.control"] = control.url
            if self.secure:
                rows["tls.dir"] = f"{HUB}/pki"
        return rows

    def _rows_of(self, place: NodePlace, ports: Sequence[int]) -> dict[str, Value]:
        scheme = "amqps" if self.secure and place.name != CARRIER else "amqp"
        rows: dict[str, Value] = {}
        if self.has_hub:
            url, *more = (f"{scheme}://127.0.0.1:{port}" for port in ports)
            rows = {"hub.url": url, **({"hub.more_urls": more} if more else {})}
            rows["hub.password"] = self._password(place.node_id)
        for key, value in self.local.items():
            if self.has_hub or not key.startswith("hub."):
                rows[key] = value.replace("{name}", place.name) if isinstance(value, str) else value
        return rows

    def _password(self, node_id: str) -> str | None:
        return None if self.secure and node_id != CARRIER else f"of {node_id}"


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
