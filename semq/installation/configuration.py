"""The configuration files of a hub and its institutions, in one folder.

Settings are rows such as ``{"amqp.port": 0}``.
"""

import json
import random
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from semq.installation.empty_database import copy_empty_database
from semq.store.embedded.server import EmbeddedPostgres

HUB = "hub"  # node id of the hub, name of its first instance
CARRIER = "carrier"  # name of the node that is the broker between instances of the hub
STANDBY = "standby"  # name of the standby of the hub's last instance
DIRECT = "direct"  # key for the direct link in the argument `links` of `InstallationPlan.write`
PORTS = range(20_000, 32_000)  # below the range from which the system takes ports for outgoing connections
_given: set[int] = set()  # ports that ``free_ports`` has returned
Value = str | int | float | bool | Sequence[str] | None  #: None: only the table is written
Rows = Mapping[str, Value]


class ApplicationLogin(Struct, frozen=True):
    """User and password of applications at every node."""

    user: str
    password: str


class NodePlace(Struct, frozen=True):
    """The files of one node, and its address for applications."""

    name: str
    node_id: str
    folder: Path
    login: ApplicationLogin
    port: int = 0  #: AMQP port; 0: the node chooses a free port at each start
    tls: bool = False  #: of the AMQP port
    is_virtual: bool = False  #: the node is the only one of a virtual server

    @property
    def kind(self) -> str:
        return "platform" if self.node_id == HUB else "virtual" if self.is_virtual else "local"

    @property
    def institution(self) -> str | None:
        """The institution in the configuration of a virtual server."""
        return self.node_id if self.is_virtual else None

    @property
    def config(self) -> Path:
        return self.folder / f"{self.name}.toml"

    @property
    def log(self) -> Path:
        """The standard error of the process."""
        return self.folder / f"{self.name}.log"

    @property
    def data_dir(self) -> Path:
        return self.folder / self.name

    def url_at(self, port: int) -> str:
        address = f"{self.login.user}:{self.login.password}@127.0.0.1:{port}{self._path}"
        key_owner = HUB if self.node_id == HUB else self.name  # all processes of the hub use the keys of the first one
        trust = self.folder / key_owner / "pki" / "trust.pem"
        return f"amqps://{address}?cafile={trust}" if self.tls else f"amqp://{address}"

    @property
    def url(self) -> str:
        """The AMQP URL for applications. With a configured port 0, use ``url_at``."""
        return self.url_at(self.port)

    @property
    def _path(self) -> str:
        return f"/{self.node_id}" if self.is_virtual else ""


class InstallationPlan(Struct, frozen=True):
    """The nodes of an installation, and further rows of their configurations."""

    institutions: Mapping[str, str]  #: name of each node | its node id
    login: ApplicationLogin
    absent: Sequence[str] = ()  #: node ids of institutions without a node here
    has_hub: bool = True  #: False: ``direct`` is needed; ``enrolment.install_certificates`` must follow
    secure: bool = False  #: links have TLS; the institutions must enrol
    direct: tuple[str, str] | None = None  #: institutions with a direct link, the first dials; needs ``secure``
    virtual: str = ""  #: institution whose node is in a virtual server
    instances: int = 1  #: of the hub
    carrier: str = ""  #: URL of the AMQP broker between instances; empty: the node CARRIER is the broker
    shared_database: str = ""  #: URL of a database for the last instance and its standby; empty: no standby
    common_rows: Rows = field(default_factory=dict)  #: settings of every node
    hub_rows: Rows = field(default_factory=dict)  #: settings of each process of the hub
    #: settings of each institution; ``{name}`` in a value becomes the name of the node
    local_rows: Rows = field(default_factory=dict)

    @property
    def hubs(self) -> tuple[str, ...]:
        return (HUB, *(f"{HUB}-{number}" for number in range(2, self.instances + 1))) if self.has_hub else ()

    def write(self, folder: Path, links: Mapping[str, Sequence[int]] | None = None) -> dict[str, NodePlace]:
        """Write the configuration files; return the places of all nodes by name, the hub first, with free ports.

        The hub's first instance must serve before the others start, because its database is the control database.
        ``links``: by name of a node, the ports of proxies to which it connects instead of the hub or the carrier;
        under DIRECT, the ports of proxies on the direct link.
        """
        folder.mkdir(parents=True, exist_ok=True)
        ids = dict.fromkeys(self._processes_of_hub(), HUB) | dict(self.institutions)
        if self.instances > 1 and not self.carrier:
            ids[CARRIER] = CARRIER
        places = {
            name: NodePlace(
                name, node_id, folder, self.login, port, self._has_tls(name, node_id), is_virtual=name == self.virtual
            )
            for (name, node_id), port in zip(ids.items(), free_ports(len(ids)), strict=True)
        }
        ports = self._ports(places) | dict(links or {})
        direct = self._direct(places, ports.get(DIRECT))
        for place in places.values():
            if self.has_server(place.name):
                copy_empty_database(place.data_dir)
            rows = self._rows_of_hub() if place.node_id == HUB else self._rows_of_institution(place, ports[place.name])
            if self.instances > 1 and place.node_id == HUB:
                rows |= self._rows_of_instance(place, ports.get(place.name, ()))
            place.config.write_text(
                toml({**self._common(place), **self.common_rows, **rows, **direct.get(place.name, {})}), "utf-8"
            )
        return places

    def _processes_of_hub(self) -> tuple[str, ...]:
        return (*self.hubs, STANDBY) if self.shared_database else self.hubs

    def has_server(self, name: str) -> bool:
        """Whether the node has a Postgres server of its own."""
        return not (self.shared_database and name in (self.hubs[-1], STANDBY))

    def _has_tls(self, name: str, node_id: str) -> bool:
        return self.secure and (node_id == HUB or (self.direct is not None and name == self.direct[1]))

    def _direct(self, places: Mapping[str, NodePlace], ports: Sequence[int] | None) -> dict[str, Rows]:
        """Return the rows of the direct link at both ends, by name. ``ports``: of proxies, if there are any."""
        if self.direct is None:
            return {}
        dialling, listening = (places[name] for name in self.direct)
        section = f"direct.{listening.node_id}"
        urls = [f"amqps://127.0.0.1:{port}" for port in ports or [listening.port]]
        hub_pauses = {key: value for key, value in self.local_rows.items() if key.startswith("hub.reconnect")}
        pauses = {key.replace("hub", section): value for key, value in hub_pauses.items()}
        return {
            dialling.name: {f"{section}.urls": urls, **pauses},
            listening.name: {f"direct.{dialling.node_id}.urls": []},
        }

    def _ports(self, places: Mapping[str, NodePlace]) -> dict[str, Sequence[int]]:
        """Return the ports to which each node connects. Institutions begin with different instances of the hub."""
        hubs = [places[name].port for name in self.hubs]
        standby = [places[STANDBY].port] if self.shared_database else []
        ports: dict[str, Sequence[int]] = {CARRIER: [1]}  # a local node must name a hub; nothing listens here
        if CARRIER in places:
            ports |= {name: [places[CARRIER].port] for name in self._processes_of_hub()}
        for number, name in enumerate(self.institutions):
            first = number % max(len(hubs), 1)
            ports[name] = [*hubs[first:], *hubs[:first], *standby]
        return ports

    def _common(self, place: NodePlace) -> dict[str, Value]:
        rows: dict[str, Value] = {"node.kind": place.kind, "node.id": place.node_id, "node.data_dir": place.name}
        if place.is_virtual:
            rows = {"server.id": place.name, "server.data_dir": place.name, f"institutions.{place.node_id}.": None}
        rows |= {
            "amqp.host": "127.0.0.1",
            "amqp.port": place.port,
            f"amqp.users.{self.login.user}": self.login.password,
        }
        return {"amqp.tls": True, **rows} if place.tls else rows

    def _rows_of_hub(self) -> dict[str, Value]:
        known = [*self.institutions.values(), *self.absent]
        return {f"nodes.{node_id}.password": self._password(node_id) for node_id in known} | dict(self.hub_rows)

    def _rows_of_instance(self, place: NodePlace, carrier: Sequence[int]) -> dict[str, Value]:
        number = self.instances if place.name == STANDBY else self.hubs.index(place.name) + 1
        rows: dict[str, Value] = {"node.semq_id": number, "node.semq_db_id": number}
        if not self.has_server(place.name):
            rows["database.url"] = self.shared_database
        rows["cluster.carrier"] = [replace(place, tls=False).url_at(port) for port in carrier] or [self.carrier]
        if number > 1:
            with EmbeddedPostgres(place.folder / HUB) as control:  # its port is chosen at its first start
                rows["cluster.control"] = control.url
            if self.secure:
                rows["tls.dir"] = f"{HUB}/pki"
        return rows

    def _rows_of_institution(self, place: NodePlace, ports: Sequence[int]) -> dict[str, Value]:
        scheme = "amqps" if self.secure and place.name != CARRIER else "amqp"
        rows: dict[str, Value] = {}
        if self.has_hub:
            url, *more = (f"{scheme}://127.0.0.1:{port}" for port in ports)
            rows = {"hub.url": url, **({"hub.more_urls": more} if more else {})}
            rows["hub.password"] = self._password(place.node_id)
        for key, value in self.local_rows.items():
            if self.has_hub or not key.startswith("hub."):
                rows[key] = value.replace("{name}", place.name) if isinstance(value, str) else value
        return rows

    def _password(self, node_id: str) -> str | None:
        return None if self.secure and node_id != CARRIER else f"of {node_id}"


def toml(rows: Rows) -> str:
    """Return rows as TOML: a table for each prefix of keys."""
    tables: dict[str, list[str]] = {}
    for key, value in rows.items():
        table, _, name = key.rpartition(".")
        lines = tables.setdefault(table, [])
        if value is not None:
            lines.append(f"{name} = {json.dumps(value)}\n")
    return "\n".join(f"[{table}]\n{''.join(lines)}" for table, lines in tables.items())


def free_ports(count: int) -> list[int]:
    """Return free ports of the loopback address, each of them only once in a process: it may not be in use yet."""
    free: list[int] = []
    for port in random.sample(PORTS, len(PORTS)):
        if port in _given:
            continue
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free.append(port)
        if len(free) == count:
            break
    _given.update(free)
    return free
