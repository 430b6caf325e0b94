"""All keys of the configuration file as rows: type, unit, default, reload, example, meaning.

They are made from the sections. `semq config reference`, the page of settings and the page of the documentation print
them.
"""

import json
import types
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from semq.config.descriptions import descriptions_of
from semq.config.institutions import ServerSection
from semq.config.reload_keys import is_reloaded
from semq.config.sections import MIB
from semq.config.settings import Settings

NAME = "NAME"  # stands for a user-defined name in a key
NAMES: dict[object, str] = {
    str: "text", int: "number", float: "number", bool: "true, false", Path: "path", SecretStr: "secret",
    Any: "any value", type(None): "nothing", dict: "table", list: "list",
}  # fmt: skip
# Ending of a key, the longest first | unit
UNITS = {
    "bytes_per_s": "bytes per second", "_per_s": "per second", "_s_min": "seconds", "_s_max": "seconds",
    "_bytes_per_partner": "bytes", "_s": "seconds", "_bytes": "bytes", "_days": "days", "_hours": "hours",
    "_per_minute": "per minute",
}  # fmt: skip
# Example of a key whose default, bounds and type give none, in TOML
EXAMPLES = {
    "node.id": '"10008"', "node.type": "1", "node.data_dir": '"/var/lib/semq/10008"',
    "database.url": '"postgresql://semq:secret@db.example:5432/semq"',
    "amqp.host": '"0.0.0.0"', "amqp.port": "5680", "amqp.virtual_hosts": '["/", "erp"]',
    "amqp.users": '{ erp = { password = "secret" } }', "amqp.users.NAME.password": '"secret"',
    "amqp.users.NAME.admin": "true",
    "amqp.users.NAME.permissions": '{ "/" = { read = "semq\\\\.inbox" } }',
    "amqp.users.NAME.permissions.NAME.configure": '"erp\\\\..*"',
    "amqp.users.NAME.permissions.NAME.write": '"semq"',
    "amqp.users.NAME.permissions.NAME.read": '"semq\\\\.inbox"', "amqp.users.NAME.inboxes": '["", "erp"]',
    "hub.url": '"amqps://hub.example:5671"', "hub.more_urls": '["amqps://hub2.example:5671"]',
    "hub.password": '"secret"', "nodes.NAME.password": '"secret"', "nodes.NAME.may_send_to": '["56001"]',
    "direct.NAME.urls": '["amqps://b.example:5671"]',
    "cluster.carrier": '["amqps://semq:secret@mq.example:5671"]',
    "cluster.control": '"postgresql://semq:secret@db.example/control"', "cluster.trust": '"mq-ca.pem"',
    "datagrams.host": '"0.0.0.0"', "datagrams.port": "5671", "datagrams.advertised_host": '"hub.example"',
    "datagrams.advertised_port": "5671", "tls.dir": '"/etc/semq/pki"', "tls.trust": '"trust.pem"',
    "tls.names": '["hub.example"]', "tls.passphrase_file": '"/etc/semq/passphrase"',
    "tls.passphrase_credential": '"semq-keys"', "tls.passphrase_variable": '"SEMQ_KEY_PASSPHRASE"',
    "secrecy.required_with": '["*"]', "secrecy.unsigned_floors_from": '["56001"]',
    "secrecy.unproved_from": '["56001"]', "secrecy.pins": f'{{ 56001 = ["{"0f" * 32}"] }}',
    "secrecy.bodies_key_file": '"/etc/semq/bodies.key"', "secrecy.bodies_key_credential": '"semq-bodies"',
    "secrecy.bodies_key_variable": '"SEMQ_BODIES_KEY"', "extract.at": '"01:30"', "extract.zone": '"Asia/Shanghai"',
    "extract.cutoff": '"17:00"', "extract.folder": '"extracts"', "extract.deliver_to": '"99000/ledger"',
    "extract.salt_file": '"/etc/semq/salt"', "folders.path": '"/srv/exchange"', "folders.user": '"erp"',
    "folders.domain": '"trade"', "webhooks.name": '"erp"',
    "webhooks.url": '"https://erp.example/semq"', "webhooks.secret": f'"whsec_{"QUJD" * 8}"',
    "webhooks.next_secret": f'"whsec_{"REVG" * 8}"', "webhooks.headers": '{ Authorization = "Bearer secret" }',
    "webhooks.certificate": '"client.pem"', "webhooks.key": '"client.key"',
    "webhooks.proxy": '"http://proxy.example:3128"', "webhooks.user": '"erp"', "webhooks.events": '["failed"]',
    "webhooks.trust": '"erp-ca.pem"', "http.host": '"0.0.0.0"', "http.url": '"https://semq.example"',
    "http.hosts": '["semq.example"]', "http.certificate": '"http.pem"', "http.key": '"http.key"',
    "http.client_authorities": '"clients-ca.pem"', "http.certificates": f'{{ {"0f" * 32} = ["submit"] }}',
    "http.oidc": '{ issuer = "https://login.example/", client_id = "semq", roles = { ops = ["operator"] } }',
    "http.oidc.issuer": '"https://login.example/"', "http.oidc.client_id": '"semq"',
    "http.oidc.client_secret": '"secret"', "http.oidc.roles": '{ ops = ["operator"] }',
    "telemetry.endpoint": '"http://127.0.0.1:4318/v1/traces"',
    "telemetry.headers": '{ Authorization = "Bearer secret" }', "telemetry.service_name": '"semq-10008"',
    "telemetry.trust": '"collector-ca.pem"', "telemetry.sample_ratio": "0.01",
    "alerts.command": '["/usr/local/bin/tell", "--semq"]', "server.id": '"hall"', "server.data_dir": '"var"',
    "server.certificate": '"server.pem"', "server.key": '"server.key"', "server.users": '{ ops = "secret" }',
}  # fmt: skip


class SettingRow(NamedTuple):
    """A key of the configuration file."""

    key: str  #: with its section; NAME stands for a user-defined name
    type: str
    unit: str  #: empty: none
    default: str  #: as in the file; empty: none
    is_required: bool
    is_reloaded: bool  #: `semq node reload` applies a change
    example: str  #: value in TOML
    meaning: str


@cache
def rows() -> tuple[SettingRow, ...]:
    """Return all keys, in the order of the sections."""
    return tuple(
        _row(key, field, text)
        for name, section in (*Settings.model_fields.items(), ("server", FieldInfo(annotation=ServerSection)))
        for model in models_in(section.annotation)
        for key, field, text in _walk(model, f"{name}.{f'{NAME}.' if get_origin(section.annotation) is dict else ''}")
    )


def models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """Yield the sections in the type of a key."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from models_in(inner)


@cache
def row_of(key: str) -> SettingRow | None:
    """Return the row of a key of a node, which may have user-defined names or numbers in lists."""
    parts = key.split(".")
    fitting = [row for row in rows() if _fits(row.key.split("."), parts)]
    return fitting[-1] if fitting else None


def _fits(row: list[str], parts: list[str]) -> bool:
    parts = [part for part in parts if not part.isdecimal()] if NAME not in row else parts
    return len(row) == len(parts) and all(one in (NAME, part) for one, part in zip(row, parts, strict=True))


def _row(key: str, field: FieldInfo, text: str) -> SettingRow:
    words = sorted(set(_words(field.annotation)) - {"nothing"}, key=str)
    is_number = "number" in words
    unit = next((unit for ending, unit in UNITS.items() if key.endswith(ending)), "") if is_number else ""
    bounds = [bound for limit in field.metadata for bound in _bound(limit)]
    default, is_required = _default(field)
    section, _, rest = key.partition(".")
    return SettingRow(
        key, ", ".join([" or ".join(words), *bounds]), unit, default, is_required,
        is_reloaded(section, rest.removeprefix(f"{NAME}.")), _example(key, field, default), text,
    )  # fmt: skip


def _walk(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo, str]]:
    descriptions = descriptions_of(model)
    for key, field in model.model_fields.items():
        name = field.alias or key
        inner = list(models_in(field.annotation))
        text = descriptions.get(key) or field.description or ""
        if text or not inner:
            yield f"{prefix}{name}", field, text
        for each in inner:
            is_table = "dict" in str(field.annotation)
            yield from _walk(each, f"{prefix}{name}.{f'{NAME}.' if is_table else ''}")


def _words(annotation: object) -> Iterator[str]:
    origin = get_origin(annotation)
    if isinstance(annotation, type) and not get_args(annotation):
        yield "table" if issubclass(annotation, BaseModel) else NAMES.get(annotation, annotation.__name__)
    elif origin is Literal:
        yield from (f"`{value}`" for value in get_args(annotation))
    elif origin in (Union, types.UnionType):
        for inner in get_args(annotation):
            yield from _words(inner)
    elif origin in (list, tuple, set, frozenset):
        yield f"list of {' or '.join(sorted(set(_words(get_args(annotation)[0]))))}"
    elif origin is dict:
        yield "table"
    elif hasattr(annotation, "__metadata__"):
        yield from _words(get_args(annotation)[0])
    else:
        yield NAMES.get(annotation, str(annotation))


def _bound(limit: object) -> Iterator[str]:
    for name, sign in (("ge", "≥"), ("gt", ">"), ("le", "≤"), ("lt", "<")):
        if (value := getattr(limit, name, None)) is not None:
            yield f"{sign} {value:,}" if isinstance(value, int | float) else f"{sign} {value}"


def _default(field: FieldInfo) -> tuple[str, bool]:
    """Return the default as text, and whether the key is required."""
    if field.default is PydanticUndefined and field.default_factory is None:
        return "", True
    value = field.get_default(call_default_factory=True) if field.default is not PydanticUndefined else None
    match value:
        case None | {} | [] | () | SecretStr() | BaseModel():
            return "", False
        case bool() | list() | tuple():
            return json.dumps(value), False
        case int() if value >= MIB and value % MIB == 0:
            return f"{value // MIB:,} MiB", False
        case int() | float():
            return f"{value:,}" if not isinstance(value, float) else f"{value:,g}", False
    return str(value), False


def _example(key: str, field: FieldInfo, default: str) -> str:
    if key in EXAMPLES:
        return EXAMPLES[key]
    value = field.default
    match value:
        case bool():
            return json.dumps(not value)
        case int() | float() | list():
            return json.dumps(value)
    choices = [word.strip("`") for word in _words(field.annotation) if word.startswith("`")]
    return json.dumps(choices[-1] if choices else default)
