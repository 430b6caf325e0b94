"""The ledger of a node in Postgres, read as Arrow batches by COPY: the rows of an extract.

One statement reads one snapshot; the stream is parsed as it arrives, so memory does not grow with the ledger. SELECT
leaves out data that must stay at the institution.
"""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pyarrow as pa
import pyarrow.csv as pv
from psycopg import sql

from semq.engine.sender.accepted_lines import ACK2_PATTERN, SAVE_FWD_PATTERN
from semq.engine.uplink import DIRECTLY
from semq.store.rows import Event
from spark_reconcile.days import Window
from spark_reconcile.errors import LedgerAway
from spark_reconcile.extracts.schema import ARROW_SCHEMA

# Column of the extract | expression on semq_ledger. ``_parse`` adds ``node`` and ``store``.
SELECT = (
    ("seq", "number"),
    ("at", "floor(extract(epoch FROM at) * 1000)::bigint"),
    ("side", "side"),
    ("event", "event"),
    ("lk0", "lk0"),
    ("source", "substring(lk0 FROM '^[0-9]+[.][A-Za-z0-9_-]+')"),
    ("target", "target"),
    ("att", "att"),
    ("lk1", "lk1"),
    ("app_key_hash", "{app_key_hash}"),
    ("app_domain", "{disclosed}app_domain END"),
    ("app_type", "{disclosed}app_type END"),
    ("app_subtype", "{disclosed}app_subtype END"),
    ("digest", "encode(digest, 'hex')"),
    ("size", "size"),
    ("reason", "coalesce(substring(detail FROM {code}), CASE WHEN event = {accepted} THEN {document} END)"),
    ("save_fwd", "CASE WHEN event = {accepted} THEN substring(detail FROM {save_fwd}) END"),
    ("ack2", "CASE WHEN event = {accepted} THEN substring(detail FROM {ack2}) END"),
)
# A large document is sent as pieces and a manifest. In the ACCEPTED line of each of them, the detail contains the name
# of the document, and for a piece also the piece's number.
_DOCUMENT_PATTERN = (
    "(?:^|, )(?:piece |manifest of |scheduled as (?=[^,]+, [0-9]+ pieces))"
    "([0-9]+[.][A-Za-z0-9_-]+[.][0-9]+[.][0-9]+[.][0-9a-f]+[.][0-9]+(?:/[0-9]+)?)(?:,|$)"
)
_APP_KEY = "app_domain || '/' || app_type || '/' || app_subtype || '/' || app_key"
_HASH = f"""CASE WHEN app_domain || app_type || app_subtype || app_key <> ''
    THEN encode(substring(sha256({{salt}} || convert_to({_APP_KEY}, 'UTF8')) FROM 1 FOR 16), 'hex') END"""
_BLOCK = 4 << 20  # bytes parsed at a time


@dataclass(frozen=True, slots=True)
class Disclosure:
    """The parts of an AppKey that the extract discloses.

    Without a salt there is no hash of the AppKey, because an order number could be found from its hash by trial. With a
    salt, equal AppKeys have equal hashes, also at institutions that share the salt.
    """

    salt: bytes | None = None
    type_in_clear: bool = False


NOTHING_DISCLOSED = Disclosure()


def read_ledger(
    connection: psycopg.Connection, window: Window, node: str, store: str, disclosure: Disclosure = NOTHING_DISCLOSED
) -> Iterator[pa.RecordBatch]:
    """Yield the lines of a window as batches, unsorted. Raises LedgerAway if the table cannot be read."""
    try:
        with connection.cursor() as cursor, cursor.copy(_statement(window, disclosure)) as copy:
            stream = pa.PythonFile(_CopyStream(copy), mode="r")
            yield from _parse(stream, node, store)
    except psycopg.Error as error:
        raise LedgerAway(why=str(error).splitlines()[0][:200] if str(error) else type(error).__name__) from error


def _statement(window: Window, disclosure: Disclosure) -> sql.Composed:
    hashed = sql.SQL("NULL")
    if disclosure.salt is not None:
        hashed = sql.SQL(_HASH).format(salt=sql.Literal(disclosure.salt))  # type: ignore[assignment]
    expressions = {
        "app_key_hash": hashed,
        "code": sql.Literal(f"^(SEMQ-[0-9][0-9][0-9][0-9]|{DIRECTLY}$)"),
        "disclosed": sql.SQL("CASE WHEN {} THEN ").format(sql.Literal(disclosure.type_in_clear)),
        "document": sql.SQL("substring(detail FROM {})").format(sql.Literal(_DOCUMENT_PATTERN)),
        "accepted": sql.Literal(int(Event.ACCEPTED)),
        "save_fwd": sql.Literal(SAVE_FWD_PATTERN),
        "ack2": sql.Literal(ACK2_PATTERN),
    }
    return sql.SQL(
        "COPY (SELECT {} FROM semq_ledger WHERE at >= to_timestamp({}) AND at < to_timestamp({})) "
        "TO STDOUT (FORMAT csv)"
    ).format(
        sql.SQL(", ").join(sql.SQL(text).format(**expressions) for _, text in SELECT),
        sql.Literal(window.start / 1000),
        sql.Literal(window.end / 1000),
    )


def _parse(stream: pa.PythonFile, node: str, store: str) -> Iterator[pa.RecordBatch]:
    names = [name for name, _ in SELECT]
    try:
        reader = pv.open_csv(
            stream,
            read_options=pv.ReadOptions(column_names=names, block_size=_BLOCK, use_threads=False),
            parse_options=pv.ParseOptions(newlines_in_values=True),
            convert_options=pv.ConvertOptions(
                column_types={name: ARROW_SCHEMA.field(name).type for name in names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,  # an empty text is quoted by COPY, a null is not
                true_values=["1"],
                false_values=["0"],
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):
            return
        raise
    for batch in reader:
        columns = {name: batch.column(name) for name in names}
        columns["node"] = _repeated(node, batch.num_rows)
        columns["store"] = _repeated(store, batch.num_rows)
        yield pa.RecordBatch.from_arrays([columns[name] for name in ARROW_SCHEMA.names], schema=ARROW_SCHEMA)


def _repeated(text: str, rows: int) -> pa.StringArray:
    # `pa.scalar` and `pa.array` import pandas, which takes longer than a small extract.
    data = text.encode()
    offsets = pa.py_buffer(struct.pack("=2i", 0, len(data)))
    return pa.repeat(pa.StringArray.from_buffers(1, offsets, pa.py_buffer(data))[0], rows)


class _CopyStream(io.RawIOBase):
    """The blocks of a COPY as a file, readable once."""

    def __init__(self, copy: psycopg.Copy) -> None:
        self._copy = copy
        self._block = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._block:
            block = self._copy.read()
            if not block:
                return 0
            self._block = memoryview(block)
        count = min(len(view), len(self._block))
        view[:count] = self._block[:count]
        self._block = self._block[count:]
        return count
