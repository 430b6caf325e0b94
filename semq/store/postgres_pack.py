"""Values in Postgres' binary format: parameters of prepared statements, arrays, and rows of a binary COPY.

Used by the other ``postgres_*`` modules. Written by hand because these few lines run for each row of each unit: one
function call a value, no lookup by type. Milliseconds since 1970 UTC become ``timestamptz`` here and nowhere else.
"""

from collections.abc import Collection, Iterable, Sequence
from struct import Struct, pack

from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

EPOCH_MS = 946_684_800_000  # Postgres counts microseconds from the year 2000
OID_INT8, OID_TEXT = 20, 25

Param = bytes | None

int8 = Struct("!q").pack
int4 = Struct("!i").pack
int2 = Struct("!h").pack
float8 = Struct("!d").pack
_array = Struct("!5i").pack
_int8_element = Struct("!iq").pack
_read_int8 = Struct("!q").unpack

TRUE, FALSE = b"\x01", b"\x00"
NULL_LENGTH = b"\xff\xff\xff\xff"
COPY_HEAD = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
COPY_END = b"\xff\xff"


def boolean(value: bool) -> bytes:
    """A boolean."""
    return TRUE if value else FALSE


def moment(ms: int) -> bytes:
    """A ``timestamptz``, from milliseconds since 1970 UTC."""
    return int8((ms - EPOCH_MS) * 1000)


def maybe_text(value: str | None) -> Param:
    """A text, or NULL."""
    return None if value is None else value.encode()


def int8s(values: Collection[int]) -> bytes:
    """A ``bigint[]``."""
    return _head(OID_INT8, len(values)) + b"".join([_int8_element(8, value) for value in values])


def texts(values: Collection[str]) -> bytes:
    """A ``text[]``."""
    return _head(OID_TEXT, len(values)) + _framed([value.encode() for value in values])


def copy_row(params: Sequence[Param]) -> bytes:
    """One row of a binary COPY, from the same packed values that a prepared INSERT takes."""
    return int2(len(params)) + _framed(params)


def copy_data(rows: Iterable[Sequence[Param]]) -> bytes:
    """The whole data of a binary COPY."""
    return b"".join((COPY_HEAD, *map(copy_row, rows), COPY_END))


def _head(oid: int, count: int) -> bytes:
    # One dimension, no NULLs, lower bound 1; the empty array has no dimension at all.
    return _array(1, 0, oid, count, 1) if count else pack("!3i", 0, 0, oid)


def _framed(values: Iterable[Param]) -> bytes:
    parts: list[bytes] = []
    for value in values:
        if value is None:
            parts.append(NULL_LENGTH)
        else:
            parts += (int4(len(value)), value)
    return b"".join(parts)


class Milliseconds(Loader):
    """Reads a binary ``timestamptz`` as milliseconds since 1970 UTC."""

    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        microseconds: int = _read_int8(data)[0]
        return microseconds // 1000 + EPOCH_MS
