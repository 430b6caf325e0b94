"""Values in Postgres' binary format: parameters of prepared statements, arrays, and the data of a binary COPY.

Milliseconds since 1970 UTC become ``timestamptz`` only here.
"""

from collections.abc import Collection, Iterable, Sequence
from struct import Struct, pack

from psycopg._copy_base import format_row_binary  # the compiled part of ``Copy.write_row``, without its cursor
from psycopg.abc import AdaptContext, Transformer
from psycopg.adapt import Buffer, Loader, PyFormat
from psycopg.adapt import Transformer as NewTransformer
from psycopg.pq import Format
from sqlalchemy import BigInteger, Boolean, DateTime, Double, Integer, LargeBinary, SmallInteger, Table, Text

EPOCH_MS = 946_684_800_000  # Postgres counts microseconds from the year 2000
OID_INT8, OID_TEXT = 20, 25

Param = Buffer | None

int8 = Struct("!q").pack
int4 = Struct("!i").pack
int2 = Struct("!h").pack
_array = Struct("!5i").pack
_int8_element = Struct("!iq").pack
_read_int8 = Struct("!q").unpack

TRUE, FALSE = b"\x01", b"\x00"
NULL = int4(-1)  # as an element of an array
COPY_HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
COPY_END = b"\xff\xff"

# Type of a column | OID of the type as which its values are packed
OIDS: tuple[tuple[type, int], ...] = (
    (SmallInteger, 21),
    (BigInteger, OID_INT8),
    (Integer, 23),
    (Boolean, 16),
    (LargeBinary, 17),
    (Text, OID_TEXT),
    (DateTime, OID_INT8),
    (Double, 701),
)


def boolean(value: bool) -> bytes:
    """Return a boolean in binary format."""
    return TRUE if value else FALSE


def microseconds(ms: int) -> int:
    """Return a time in microseconds since 2000, from milliseconds since 1970 UTC."""
    return (ms - EPOCH_MS) * 1000


def moment(ms: int) -> bytes:
    """Return a ``timestamptz``, from milliseconds since 1970 UTC."""
    return int8(microseconds(ms))


def int8s(values: Collection[int]) -> bytes:
    """Return a ``bigint[]``."""
    return _head(OID_INT8, len(values)) + b"".join([_int8_element(8, value) for value in values])


def texts(values: Collection[str | None]) -> bytes:
    """Return a ``text[]``; None is NULL."""
    parts = [_head(OID_TEXT, len(values))]
    for value in values:
        if value is None:
            parts.append(NULL)
        else:
            data = value.encode()
            parts += (int4(len(data)), data)
    return b"".join(parts)


def _head(oid: int, count: int) -> bytes:
    # One dimension, flag 0 (Postgres finds NULLs without it), lower bound 1; an empty array has no dimension.
    return _array(1, 0, oid, count, 1) if count else pack("!3i", 0, 0, oid)


class Packer:
    """Packing of whole rows by psycopg's compiled dumpers. Values are given in the order of the columns."""

    def __init__(self, context: AdaptContext, tables: Iterable[Table]) -> None:
        self._transformers: dict[str, Transformer] = {}
        self._formats: dict[str, list[PyFormat]] = {}
        for table in tables:
            oids = [next(oid for kind, oid in OIDS if isinstance(column.type, kind)) for column in table.columns]
            self._transformers[table.name] = transformer = NewTransformer(context)
            transformer.set_dumper_types(oids, Format.BINARY)
            self._formats[table.name] = [PyFormat.BINARY] * len(oids)

    def params(self, table: str, values: Sequence[object]) -> Sequence[Buffer | None]:
        """Return one row as the parameters of a prepared INSERT."""
        return self._transformers[table].dump_sequence(values, self._formats[table])

    def copy_data(self, table: str, rows: Iterable[Sequence[object]]) -> bytearray:
        """Return rows as the complete data of a binary COPY."""
        out, transformer = bytearray(COPY_HEAD), self._transformers[table]
        for values in rows:
            format_row_binary(values, transformer, out)
        out += COPY_END
        return out

    def copy_row(self, table: str, values: Sequence[object]) -> bytearray:
        """Return one row in the form that it has in the data of a binary COPY."""
        out = bytearray()
        format_row_binary(values, self._transformers[table], out)
        return out


def copy_of(rows: Iterable[Buffer]) -> bytes:
    """Return packed rows as the complete data of a binary COPY."""
    return b"".join((COPY_HEAD, *rows, COPY_END))


class Milliseconds(Loader):
    """A loader that reads a binary ``timestamptz`` as milliseconds since 1970 UTC."""

    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        microseconds: int = _read_int8(data)[0]
        return microseconds // 1000 + EPOCH_MS
