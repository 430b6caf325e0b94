"""Configuration files with several institutions: the settings of the server, and of each institution.

    [server]                         name and data directory of the virtual server
    [database] [amqp] [hub] …        shared sections, as in the file of one node
    [institutions."10008".hub]       keys of one institution; they replace keys of the shared sections

Keys of the process (PROCESS_KEYS) can be set in the shared sections only; id, kind and data_dir of a node not at all. A
variable such as SEMQ_HUB__PASSWORD applies to all institutions; SEMQ_INSTITUTIONS__10008__HUB__PASSWORD applies to one.
Each institution has a database of its own, in the Postgres server of its own ``database.url``, of ``[database]``, or of
the virtual server.
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
INSTITUTION_PREFIX = f"{PREFIX}{INSTITUTIONS.upper()}{NESTED}"
MEMORY_BYTES = 64 * 1024 * 1024  # default of amqp.memory_bytes for one institution
# Section | its keys that only the shared section may have; empty: all keys
PROCESS_KEYS = {
    "amqp": ("host", "port", "tls", "allow_plain", "heartbeat_s", "handshake_s", "max_channels"),
    "log": (),
}
OF_PROCESS = "belongs to the process: set it in the shared section"
OF_SERVER = "is set by the server: the id is the name of this table, the data are in server.data_dir"


class ServerSection(Section):
    """A virtual server: one process with the local nodes of many institutions."""

    id: NodeId
    """name of the virtual server, for operators"""
    data_dir: Path
    """folder of the institutions' data, and of the embedded Postgres server unless database.url is set; relative to the
    folder of this configuration file"""
    certificate: Path | None = None
    """PEM file of the port's certificate and its chain: TLS for applications; relative to the folder of this file"""
    key: Path | None = None
    """PEM file of the certificate's private key; relative to the folder of this file"""
    users: dict[str, SecretStr] = Field({})
    """administrators of the server, in virtual host "/": name = "password"; default: guest from this machine"""
    connections: Count = 64
    """connections to Postgres that all institutions share for writing; at this limit, an idle one is closed"""
    rest_s: Seconds = 30.0
    """time without work after which an institution closes its connection to Postgres, until the next work"""
    rest_poll_s: Seconds = 300.0
    """interval at which an institution without a connection looks for documents submitted by SQL"""
    starts: Count = 8
    """largest number of institutions that start at the same time"""


class ServerSettings(Section):
    """The settings of the process: [server], and the shared sections that it uses."""

    server: ServerSection
    amqp: AmqpSection = AmqpSection()
    database: DatabaseSection = DatabaseSection()
    log: LogSection = LogSection()
    names: list[NodeId] = Field([], description="node ids of the institutions")


def is_virtual(written: Mapping[str, object]) -> bool:
    """Return whether the tables describe a virtual server."""
    return SERVER in written or INSTITUTIONS in written


def server_settings(written: Mapping[str, object], path: Path) -> ServerSettings:
    """Return the settings of the process. Raises ConfigInvalid."""
    given = {name: written[name] for name in (SERVER, "amqp", "database", "log") if name in written}
    if isinstance(amqp := given.get("amqp"), dict):
        given["amqp"] = {name: value for name, value in amqp.items() if name != "users"}  # those of the institutions
    tables = written.get(INSTITUTIONS, {})
    if not isinstance(tables, dict):
        raise ConfigInvalid([ConfigFault(str(path), INSTITUTIONS, "must be a table for each institution")])
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
        raise ConfigInvalid([ConfigFault(str(path), "server", "certificate and key must be set together")])
    base = path.parent.resolve()
    paths = {name: getattr(server, name) for name in ("data_dir", "certificate", "key")}
    absolute = {name: base / given for name, given in paths.items() if given is not None}
    return settings.model_copy(update={"server": server.model_copy(update=absolute)})


def institution_tables(
    written: Mapping[str, Any], institution: str, path: Path, process: ServerSettings
) -> dict[str, object]:
    """Return the tables of one institution in the form of a file with a single node. Raises ConfigInvalid."""
    tables: Mapping[str, object] = written.get(INSTITUTIONS, {})
    own = tables.get(institution)
    place = f'{path} [institutions."{institution}"]'
    if own is None:
        raise ConfigInvalid([ConfigFault(place, "", f"there is no such table{did_you_mean(institution, tables)}")])
    if not isinstance(own, dict):
        raise ConfigInvalid([ConfigFault(place, "", "must be a table")])
    texts = {key: OF_SERVER if key.startswith("node.") else OF_PROCESS for key in _process_keys(own)}
    faults = [ConfigFault(place, key, text) for key, text in texts.items()]
    if faults:
        raise ConfigInvalid(faults)
    shared = {name: table for name, table in written.items() if name not in (SERVER, INSTITUTIONS)}
    merged = _merged(shared, own)
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
    """Return the variables for one institution; its own variables replace shared ones."""
    own = f"{INSTITUTION_PREFIX}{institution}{NESTED}".upper()  # prefix of the variables of this institution
    shared = {name: value for name, value in env.items() if not name.upper().startswith(INSTITUTION_PREFIX)}
    specific = {PREFIX + name[len(own) :]: value for name, value in env.items() if name.upper().startswith(own)}
    return {**shared, **specific}


def server_url(process: ServerSettings) -> str | None:
    """Return the URL of the Postgres server; None if the server is embedded and does not run."""
    return process.database.dsn or EmbeddedPostgres(process.server.data_dir).running_url()


def database_name(institution: str) -> str:
    """Return the name of an institution's database."""
    return f"semq_{institution}"


def database_url(url: str, institution: str) -> str:
    """Return the URL of an institution's database in the Postgres server of ``url``."""
    return urlunsplit(urlsplit(url)._replace(path="/" + quote(database_name(institution), safe="")))


def _process_keys(own: Mapping[str, Any]) -> list[str]:
    """Return the keys that an institution's table must not have."""
    refused = [name for name in own if PROCESS_KEYS.get(name) == ()]
    for name, keys in PROCESS_KEYS.items():
        table = own.get(name)
        if isinstance(table, dict):
            refused += [f"{name}.{key}" for key in keys if key in table]
    refused += [f"node.{key}" for key in ("id", "kind", "data_dir") if key in own.get("node", {})]
    return refused


def _merged(shared: Mapping[str, object], own: Mapping[str, object]) -> dict[str, Any]:
    """Return the shared tables, with keys replaced by those of an institution."""
    merged = dict(shared)
    for name, value in own.items():
        replaced = merged.get(name)
        merged[name] = _merged(replaced, value) if isinstance(replaced, dict) and isinstance(value, dict) else value
    return merged
