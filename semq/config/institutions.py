"""A configuration file with several institutions: the settings of each, made of its table over the shared sections.

    [server]                         name and data directory of the virtual server
    [database] [amqp] [hub] …        shared by all, as in the file of one node
    [institutions."10008".hub]       keys of one institution, in the sections of a node; they replace shared ones

What belongs to the process (the port and its TLS, the log) can be set in the shared sections only. Variables of the
environment hold for all; SEMQ_INSTITUTIONS__10008__HUB__PASSWORD holds for one. Each institution has a database of its
own in the Postgres server of ``[database]``, or of the virtual server itself.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from pydantic import Field, SecretStr, ValidationError

from semq.config.defaults import NESTED, PREFIX
from semq.config.errors import ConfigFault, ConfigInvalid
from semq.config.nearest import did_you_mean
from semq.config.sections import AmqpSection, Count, DatabaseSection, LogSection, NodeId, Seconds, Section
from semq.store.embedded.server import EmbeddedPostgres

SERVER, INSTITUTIONS = "server", "institutions"
OWN_PREFIX = f"{PREFIX}{INSTITUTIONS.upper()}{NESTED}"
MEMORY_BYTES = 64 * 1024 * 1024  # memory of one institution, unless amqp.memory_bytes is set
# Keys of sections that belong to the process.
OF_THE_PROCESS = {
    "amqp": ("host", "port", "tls", "allow_plain", "heartbeat_s", "handshake_s", "max_channels", "virtual_hosts"),
    "log": (),
}


class ServerSection(Section):
    """A process with the local nodes of many institutions."""

    id: NodeId
    """name of the virtual server, for people"""
    data_dir: Path
    """folder of the institutions' folders, and of the Postgres server unless database.url is set"""
    certificate: Path | None = None
    """PEM file of the certificate of the port, and its chain: TLS for applications; relative to the file"""
    key: Path | None = None
    """PEM file of its private key; relative to the file"""
    users: dict[str, SecretStr] = Field({})
    """administrators of the whole server, in virtual host "/": name = "password"; default: guest from this machine"""
    connections: Count = 64
    """connections to Postgres for writing that all institutions have together; idle ones are closed first"""
    rest_s: Seconds = 30.0
    """an institution without work for so long closes its connection to Postgres; the next work opens it again"""
    rest_poll_s: Seconds = 300.0
    """interval at which such an institution searches for documents submitted by SQL"""
    starts: Count = 8
    """institutions that are started at the same time"""


class ServerSettings(Section):
    """The settings of the process."""

    server: ServerSection
    amqp: AmqpSection = AmqpSection()
    database: DatabaseSection = DatabaseSection()
    log: LogSection = LogSection()
    names: list[NodeId] = Field([], description="the institutions")


def is_virtual(written: Mapping[str, Any]) -> bool:
    """Whether a file is of a virtual server."""
    return SERVER in written or INSTITUTIONS in written


def server_settings(written: Mapping[str, Any], path: Path) -> ServerSettings:
    """Return the settings of the process. Raises ConfigInvalid."""
    given = {name: written[name] for name in (SERVER, "amqp", "database", "log") if name in written}
    tables = written.get(INSTITUTIONS, {})
    if not isinstance(tables, dict):
        raise ConfigInvalid([ConfigFault(str(path), INSTITUTIONS, "a table for each institution belongs here")])
    try:
        settings = ServerSettings.model_validate({**given, "names": list(tables)})
    except ValidationError as error:
        faults = [
            ConfigFault(str(path), ".".join(map(str, line["loc"])), line["msg"].removeprefix("Value error, "))
            for line in error.errors()
        ]
        raise ConfigInvalid(faults) from error
    server = settings.server
    if (server.certificate is None) != (server.key is None):
        raise ConfigInvalid([ConfigFault(str(path), "server", "certificate and key go together")])
    base = path.parent.resolve()
    places = {name: getattr(server, name) for name in ("data_dir", "certificate", "key")}
    absolute = {name: base / place for name, place in places.items() if place is not None}
    return settings.model_copy(update={"server": server.model_copy(update=absolute)})


def institution_tables(
    written: Mapping[str, Any], institution: str, path: Path, process: ServerSettings
) -> dict[str, Any]:
    """Return the tables of one institution, as a file of one node would have them. Raises ConfigInvalid."""
    tables: Mapping[str, Any] = written.get(INSTITUTIONS, {})
    own = tables.get(institution)
    here = f'{path} [institutions."{institution}"]'
    if own is None:
        raise ConfigInvalid([ConfigFault(here, "", f"there is no such table{did_you_mean(institution, tables)}")])
    if not isinstance(own, dict):
        raise ConfigInvalid([ConfigFault(here, "", "a table belongs here, not a value")])
    faults = [ConfigFault(here, key, "belongs to the process: set it in the shared section") for key in _foreign(own)]
    if faults:
        raise ConfigInvalid(faults)
    shared = {name: table for name, table in written.items() if name not in (SERVER, INSTITUTIONS)}
    merged = _over(shared, own)
    merged["node"] = {
        **merged.get("node", {}), "kind": "local", "id": institution,
        "data_dir": str(process.server.data_dir / institution),
    }  # fmt: skip
    amqp = dict(merged.get("amqp", {}))
    amqp.setdefault("memory_bytes", MEMORY_BYTES)
    if process.server.certificate is not None:
        amqp["allow_plain"] = True  # the port has TLS with the certificate of the process
    merged["amqp"] = amqp
    if not own.get("database", {}).get("url"):
        url = server_url(process)
        if url is not None:
            merged["database"] = {**merged.get("database", {}), "url": database_url(url, institution)}
    return merged


def environment_of(env: Mapping[str, str], institution: str) -> dict[str, str]:
    """Return the variables that hold for one institution; its own ones replace those for all."""
    own = f"{OWN_PREFIX}{institution}{NESTED}".upper()
    shared = {name: value for name, value in env.items() if not name.upper().startswith(OWN_PREFIX)}
    mine = {PREFIX + name[len(own) :]: value for name, value in env.items() if name.upper().startswith(own)}
    return {**shared, **mine}


def server_url(process: ServerSettings) -> str | None:
    """Return the URL of the Postgres server; None if it is the virtual server's own and does not run."""
    return process.database.dsn or EmbeddedPostgres(process.server.data_dir).running_url()


def database_name(institution: str) -> str:
    """Return the name of an institution's database."""
    return f"semq_{institution}"


def database_url(url: str, institution: str) -> str:
    """Return the URL of an institution's database in the Postgres server of ``url``."""
    return urlunsplit(urlsplit(url)._replace(path="/" + quote(database_name(institution), safe="")))


def _foreign(own: Mapping[str, Any]) -> list[str]:
    """Return the keys of a table that only the process has."""
    found = [name for name in own if OF_THE_PROCESS.get(name) == ()]
    for name, keys in OF_THE_PROCESS.items():
        table = own.get(name)
        if isinstance(table, dict):
            found += [f"{name}.{key}" for key in keys if key in table and key != "virtual_hosts"]
    found += [f"node.{key}" for key in ("id", "kind", "data_dir") if key in own.get("node", {})]
    return found


def _over(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with those of an institution over the shared ones."""
    merged = dict(shared)
    for name, value in own.items():
        before = merged.get(name)
        merged[name] = _over(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return merged
