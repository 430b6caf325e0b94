"""All keys as rows."""

import tomllib
from typing import Annotated, Any

import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from semq.config.institutions import ServerSection
from semq.config.reference import EXAMPLES, SettingRow, models_in, row_of, rows
from semq.config.settings import Settings
from tests.cli.command import semq


def field_of(row: SettingRow) -> FieldInfo:
    """Return the field of a key, found by its path."""
    name, *path = row.key.split(".")
    section: Any = FieldInfo(annotation=ServerSection) if name == "server" else Settings.model_fields[name]
    found: list[FieldInfo] = [section]
    for part in path:
        fields = [model.model_fields for each in found for model in models_in(each.annotation)]
        aliases = {field.alias or key: field for each in fields for key, field in each.items()}
        found = [aliases[part]] if part in aliases else found  # a user-defined name
    return found[0]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.key)
def test_every_example_is_valid_for_its_key(row: SettingRow) -> None:
    field = field_of(row)
    value = tomllib.loads(f"x = {row.example}")["x"]
    kind: Any = Annotated[field.annotation, *(field.metadata or [None])]
    TypeAdapter(kind).validate_python(value)
    assert row.meaning


def test_examples_are_for_present_keys() -> None:
    assert EXAMPLES.keys() - {row.key for row in rows()} == set()


def test_units_follow_from_the_names_of_keys() -> None:
    units = {key: found.unit for key in ("amqp.heartbeat_s", "protocol.inquiry_s_max", "http.requests_per_s",
             "datagrams.bytes_per_s", "amqp.memory_bytes", "amqp.port") if (found := row_of(key))}  # fmt: skip
    assert units == {
        "amqp.heartbeat_s": "seconds", "protocol.inquiry_s_max": "seconds", "http.requests_per_s": "per second",
        "datagrams.bytes_per_s": "bytes per second", "amqp.memory_bytes": "bytes", "amqp.port": "",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("key", "row"),
    [("amqp.users.app.password", "amqp.users.NAME.password"), ("folders.0.path", "folders.path"), ("nonsense.x", None)],
)
def test_keys_of_a_node_have_their_row(key: str, row: str | None) -> None:
    found = row_of(key)
    assert (found and found.key) == row


def test_the_command_prints_meaning_unit_default_reload_and_example() -> None:
    assert semq("config", "reference", "http.requests_per_s").out.splitlines() == [
        "http.requests_per_s: requests of one user or token per second; further ones get the answer 429",
        "    number, > 0, per second, default 5,000, applied at the next start",
        "    requests_per_s = 5000.0",
    ]
    assert "applied by a reload" in semq("config", "reference", "protocol.overdue_s").out
    assert len(semq("config", "reference", "--json").data) == len(rows())
    semq("config", "reference", "nonsense").fails(1, "SEMQ-2211", "No key")
