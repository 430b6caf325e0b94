"""The footer of a Parquet file: the descriptions of its column chunks.

The descriptions are read in Python, because Arrow ends the whole process if they contradict each other. A footer is a
struct of Thrift's compact protocol; the field numbers are those of parquet.thrift.
"""

from collections.abc import Iterator
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from pyarrow import NativeFile

MAGIC = b"PAR1"
FOOTER_MAX = 16 << 20  # bytes, enough for thousands of row groups
VALUES_MAX = 1_000_000  # limits memory: an empty element takes one byte in the file and a hundred in memory
DEPTH_MAX = 12  # nesting of structs and lists; a footer has seven levels
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZO", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW")
# Kinds of fields in Thrift's compact protocol.
_TRUE, _FALSE, _BYTE = 1, 2, 3
_DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 7, 8, 9, 10, 12
_INTEGERS = (4, 5, 6)
_Struct = dict[int, Any]


class BadFooter(ValueError):
    """The end of a file is not the footer of a Parquet file."""


class _Numbers(list[int]):
    """A list of integers with its position in the footer."""

    span: tuple[int, int]


class Chunk(NamedTuple):
    """The description of one column of a row group."""

    column: str
    codec: str
    values: int  #: number of values
    unpacked: int  #: bytes after decompression
    range: tuple[int, int] | None  #: lowest and highest value of a column of 64-bit integers, if stated
    is_elsewhere: bool  #: whether its data is in another file


def chunks(stream: NativeFile) -> list[Chunk]:
    """Read the descriptions of all column chunks. Raises BadFooter, OSError."""
    metadata = _read(_footer(stream))
    try:
        return [_chunk(column) for group in metadata.get(4, []) for column in group[1]]
    except BadFooter:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise BadFooter("the description of a column chunk is incomplete") from error


def sort_encodings(path: Path) -> None:
    """Sort the encodings of each column in the footer of a file that Spark wrote, so that equal runs give equal bytes.

    Their order differs between Java processes. Raises BadFooter.
    """
    with path.open("r+b") as stream:
        raw = bytearray(_footer(stream))
        for group in _read(bytes(raw)).get(4, []):
            for column in group[1]:
                encodings: _Numbers = column[3][2]
                start, end = encodings.span
                if end - start == len(encodings):  # one byte each
                    raw[start:end] = sorted(raw[start:end])
        stream.seek(-8 - len(raw), SEEK_END)
        stream.write(raw)


def _footer(stream: BinaryIO) -> bytes:
    size = stream.seek(0, SEEK_END)
    stream.seek(max(size - 8, 0))
    end = stream.read(8)
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or length > min(size - 8, FOOTER_MAX):
        raise BadFooter("it has no footer, or its footer is too long for a ledger")
    stream.seek(size - 8 - length)
    return bytes(stream.read(length))


def _chunk(column: _Struct) -> Chunk:
    fields = column[3]
    if not all(type(fields[number]) is int for number in (4, 5, 6)):
        raise BadFooter("a field of a column chunk is not a number")
    name = b".".join(fields[3]).decode()
    codec = CODECS[fields[4]] if 0 <= fields[4] < len(CODECS) else str(fields[4])
    return Chunk(name, codec, fields[5], fields[6], _range(fields.get(12, {})), 1 in column)


def _range(fields: _Struct) -> tuple[int, int] | None:
    low, high = fields.get(6, fields.get(2)), fields.get(5, fields.get(1))
    if not (isinstance(low, bytes) and isinstance(high, bytes) and len(low) == len(high) == 8):
        return None
    return int.from_bytes(low, "little", signed=True), int.from_bytes(high, "little", signed=True)


def _read(raw: bytes) -> _Struct:
    try:
        return _Reader(raw).struct(DEPTH_MAX)
    except IndexError as error:
        raise BadFooter("the footer ends too early") from error


class _Reader:
    """A reader of Thrift's compact protocol: structs as dictionaries by field number. Raises IndexError, BadFooter."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at, self._values_left = raw, 0, VALUES_MAX

    def struct(self, depth: int) -> _Struct:
        fields: _Struct = {}
        for number, value in self._fields(depth):
            if number in fields:  # readers differ in which of the two they use
                raise BadFooter("a field occurs twice")
            fields[number] = value
        return fields

    def _fields(self, depth: int) -> Iterator[tuple[int, object]]:
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._integer()
            if kind in (_TRUE, _FALSE):  # the kind of a boolean field is its value
                self._count_values(1)
                yield number, kind == _TRUE
            else:
                yield number, self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> object:
        self._count_values(1)
        if not depth:
            raise BadFooter("it is nested too deep")
        if kind in _INTEGERS:
            return self._integer()
        if kind == _BINARY:
            return self._read_bytes(self._number())
        if kind == _STRUCT:
            return self.struct(depth - 1)
        if kind in (_LIST, _SET):
            return self._list(depth - 1)
        if kind == _DOUBLE:
            return self._read_bytes(8)
        if kind in (_TRUE, _FALSE, _BYTE):  # a byte, or a boolean element of a list
            return self._byte()
        raise BadFooter(f"a field has the unexpected kind {kind}")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = self._number() if head >> 4 == 15 else head >> 4
        if count > len(self._raw) - self._at:  # each takes at least one byte
            raise BadFooter("a list is longer than the footer")
        if head & 15 not in _INTEGERS:
            return [self._value(head & 15, depth) for _ in range(count)]
        self._count_values(count)
        begin = self._at
        numbers = _Numbers(self._integer() for _ in range(count))
        numbers.span = begin, self._at
        return numbers

    def _count_values(self, count: int) -> None:
        self._values_left -= count
        if self._values_left <= 0:
            raise BadFooter("it has too many values")

    def _read_bytes(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._raw):
            raise BadFooter("a text is longer than the footer")
        content, self._at = self._raw[self._at : end], end
        return content

    def _byte(self) -> int:
        self._at += 1
        return self._raw[self._at - 1]

    def _number(self) -> int:
        """Read an unsigned number, seven bits in each byte."""
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 127) << shift
            if byte < 128:
                return result
            shift += 7
            if shift > 63:
                raise BadFooter("a number is too long")

    def _integer(self) -> int:
        """Read a signed number in zigzag encoding."""
        number = self._number()
        return number >> 1 ^ -(number & 1)
