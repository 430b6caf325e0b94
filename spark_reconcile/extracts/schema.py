"""The extract's rows, schema version 1: one row per line of a node's ledger (semq/store/rows.py), without payload.

The Arrow schema, Spark's schema and the chapter in DESIGN.md are made from the table below.
"""

from typing import NamedTuple

import pyarrow as pa

SCHEMA_VERSION = 1


class Column(NamedTuple):
    """A column of the extract: its Arrow type, Spark's name for that type, whether it needs a value, its meaning."""

    name: str
    arrow: pa.DataType
    spark: str
    required: bool
    meaning: str


# fmt: off
COLUMNS = (
    Column("node", pa.string(), "string", True, "the node that wrote the line, such as 1.10008; one value per extract"),
    Column("store", pa.string(), "string", True, "its store, semq_id.semq_db_id, such as 1.1; one value per extract"),
    Column("seq", pa.int64(), "bigint", True, "number of the line in that store's ledger; never reused"),
    Column("at", pa.int64(), "bigint", True, "time by the clock of the node: milliseconds since 1970 UTC"),
    Column("side", pa.int8(), "tinyint", True, "the side for which the node wrote it: 1 sender, 2 hub, 3 receiver"),
    Column("event", pa.int16(), "smallint", True, "number of the event, see the table of events"),
    Column("lk0", pa.string(), "string", True, "the message: its source locator in full"),
    Column("source", pa.string(), "string", False, "the accepting node: first two parts of lk0; runs do not use it"),
    Column("target", pa.string(), "string", False, "the target address; empty where the line does not state it"),
    Column("att", pa.int32(), "int", False, "attempt or delivery number; 0 where it means nothing"),
    Column("lk1", pa.string(), "string", False, "locator of the stored copy; empty if there is none"),
    Column("app_key_hash", pa.string(), "string", False, "salted hash of the AppKey, 32 hex digits; or null"),
    Column("app_domain", pa.string(), "string", False, "AppKey domain in clear; null unless disclosed"),
    Column("app_type", pa.string(), "string", False, "AppKey data type in clear; null unless disclosed"),
    Column("app_subtype", pa.string(), "string", False, "AppKey subtype in clear; null unless disclosed"),
    Column("digest", pa.string(), "string", False, "SHA-256 of the payload, lower-case hex; empty if not given"),
    Column("size", pa.int64(), "bigint", False, "payload bytes; 0 where the line does not state it"),
    Column("reason", pa.string(), "string", False, "SEMQ-nnnn, `by the direct link`, or the name of a large document"),
    Column("save_fwd", pa.int8(), "tinyint", False, "class 1, 2 or 3, on ACCEPTED lines; null is judged as class 3"),
    Column("ack2", pa.bool_(), "boolean", False, "whether a receipt is wanted, on ACCEPTED lines; null is true"),
)
# fmt: on

ARROW_SCHEMA = pa.schema([pa.field(column.name, column.arrow, not column.required) for column in COLUMNS])
SPARK_SCHEMA = ", ".join(f"{column.name} {column.spark}" for column in COLUMNS)


def schema_difference(schema: pa.Schema) -> str:
    """Return how a file's schema differs from version 1; empty if it does not.

    Additional columns, large strings, dictionary encoding and nullability do not count.
    """
    names = [name.lower() for name in schema.names]
    for column in COLUMNS:
        index = schema.get_field_index(column.name)
        if index < 0:
            return f"column {column.name} is missing"
        if names.count(column.name) > 1:
            return f"column {column.name} occurs twice"  # Spark ignores case in column names
        stored = schema.field(index).type
        plain = stored.value_type if pa.types.is_dictionary(stored) else stored
        if plain not in (column.arrow, _LARGE.get(column.arrow)):
            return f"column {column.name} is {stored}, not {column.arrow}"
    return ""


_LARGE = {pa.string(): pa.large_string()}
