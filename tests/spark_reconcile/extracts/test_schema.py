"""Schema version 1: one table of columns, the same for Arrow, Spark and the documentation."""

from pathlib import Path

import pyarrow as pa

from semq.store.rows import Event, Side
from spark_reconcile.extracts import ledger
from spark_reconcile.extracts.events import EVENTS_OF, NOTES, mask
from spark_reconcile.extracts.schema import ARROW_SCHEMA, COLUMNS, SPARK_SCHEMA, schema_difference

DESIGN = Path(__file__).parents[3] / "spark_reconcile" / "DESIGN.md"


def test_a_file_of_the_schema_matches_in_any_encoding() -> None:
    assert schema_difference(ARROW_SCHEMA) == ""
    encoded = pa.schema([pa.field("extra", pa.int8()), *(
        pa.field(field.name, pa.dictionary(pa.int32(), field.type) if field.type == pa.string() else field.type)
        for field in ARROW_SCHEMA
    )])  # fmt: skip
    assert schema_difference(encoded) == ""
    large = pa.schema([pa.field(f.name, pa.large_string() if f.type == pa.string() else f.type) for f in ARROW_SCHEMA])
    assert schema_difference(large) == ""


def test_missing_columns_and_wrong_types_are_reported() -> None:
    assert schema_difference(ARROW_SCHEMA.remove(0)) == "column node is missing"
    assert schema_difference(ARROW_SCHEMA.set(2, pa.field("seq", pa.int32()))) == "column seq is int32, not int64"


def test_spark_reads_the_same_columns() -> None:
    names = [part.split()[0] for part in SPARK_SCHEMA.split(", ")]
    assert names == ARROW_SCHEMA.names
    assert {name for name, _ in ledger.SELECT} | {"node", "store"} == set(names)


def test_the_documentation_names_every_column_and_event() -> None:
    text = DESIGN.read_text()
    for column in COLUMNS:
        assert f"| `{column.name}` | {column.arrow} | {'yes' if column.required else ''} | {column.meaning} |" in text
    for event in Event:
        sides = ", ".join(side.name.lower() for side in Side if event in EVENTS_OF[side])
        assert f"| {event:d} | {event.name} | {sides} |" in text


def test_events_are_bits_of_one_number() -> None:
    assert mask(Event.ACCEPTED, Event.SENT) == 0b110
    assert mask(*Event) < 2**31
    assert mask(Event.VIOLATION) & NOTES
    assert not mask(Event.ACCEPTED) & NOTES
