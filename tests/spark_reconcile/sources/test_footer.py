"""Valid footers are read as Arrow reads them; an invalid footer never ends the process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reconcile.extracts.manifest import ExtractPart, Manifest
from spark_reconcile.extracts.schema import ARROW_SCHEMA
from spark_reconcile.sources.footer import MAGIC, BadFooter, Chunk, _read, _Reader, chunks, sort_encodings
from spark_reconcile.sources.parts import checked_contents
from spark_reconcile.storage import Place
from tests.spark_reconcile.report.examples import source

ROW: dict[str, Any] = {"node": "1.a", "store": "1.1", "side": 1, "event": 1, "lk0": "1.a.1.1.3f.7", "at": -5}
ROWS = [{**ROW, "seq": number, "at": number - 5} for number in range(50)]
FILE = "part-0.parquet"
MANIFEST = cast(Manifest, source("1.a").manifest)


def write(folder: Path, **options: Any) -> Place:
    pq.write_table(pa.Table.from_pylist(ROWS, ARROW_SCHEMA), folder / FILE, **options)
    return Place.at(folder / FILE)


def chunks_of(file: Place) -> list[Chunk]:
    with file.open() as stream:
        return chunks(stream)


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "none", "row_group_size": 7},
        {"compression": "gzip", "write_statistics": False},
        {"compression": "zstd", "version": "1.0", "write_page_index": True},
        {"compression": {name: "snappy" if name == "at" else "lz4" for name in ARROW_SCHEMA.names}},
        {"compression": "brotli"},
    ],
)
def test_valid_footers_are_read_as_by_arrow(tmp_path: Path, options: dict[str, Any]) -> None:
    file = write(tmp_path, **options)
    metadata = pq.read_metadata(file.path)
    expected = []
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        for column in (group.column(number) for number in range(group.num_columns)):
            statistics = column.statistics
            has_range = column.physical_type == "INT64" and statistics is not None and statistics.has_min_max
            codec = {"LZ4": "LZ4_RAW"}.get(column.compression, column.compression)  # Arrow writes only the current kind
            expected.append(
                Chunk(column.path_in_schema, codec, column.num_values, column.total_uncompressed_size,
                      (statistics.min, statistics.max) if has_range else None, is_elsewhere=False)
            )  # fmt: skip
    assert chunks_of(file) == expected


def test_every_altered_footer_leads_to_a_state(tmp_path: Path) -> None:
    file = write(tmp_path, compression="zstd")
    whole = Path(file.path).read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    part = ExtractPart(FILE, len(ROWS), len(whole), "0" * 64)
    states = set()
    for at in range(len(whole) - 8 - footer, len(whole), 9):
        for byte in (whole[at] ^ 1 << at % 8, 0xFF):
            Path(file.path).write_bytes(whole[:at] + bytes([byte]) + whole[at + 1 :])
            states.add(checked_contents(part, file, MANIFEST).state)
    assert {"TRUNCATED", "UNKNOWN_SCHEMA", ""} <= states


def test_the_encodings_of_a_column_are_sorted(tmp_path: Path) -> None:
    file = write(tmp_path, compression="zstd", row_group_size=20)
    path = Path(file.path)
    sort_encodings(path)
    first = path.read_bytes()
    footer = len(first) - 8 - int.from_bytes(first[-8:-4], "little")
    lists = [column[3][2] for group in _read(first[footer:-8])[4] for column in group[1]]
    assert max(map(len, lists)) > 1
    assert all(list(encodings) == sorted(encodings) for encodings in lists)
    reversed_lists = bytearray(first)
    for encodings in lists:
        begin, end = (footer + at for at in encodings.span)
        reversed_lists[begin:end] = reversed(reversed_lists[begin:end])
    path.write_bytes(reversed_lists)
    assert reversed_lists != first
    sort_encodings(path)
    assert path.read_bytes() == first
    assert pq.read_table(path).to_pylist() == pa.Table.from_pylist(ROWS, ARROW_SCHEMA).to_pylist()


@pytest.mark.parametrize("absent", ["node", "store", "lk0", "reason"])
def test_a_missing_column_is_named(tmp_path: Path, absent: str) -> None:
    table = pa.Table.from_pylist(ROWS, ARROW_SCHEMA).drop_columns([absent])
    pq.write_table(table, tmp_path / FILE)
    check = checked_contents(ExtractPart(FILE, len(ROWS), 0, ""), Place.at(tmp_path / FILE), MANIFEST)
    assert check[:2] == ("UNKNOWN_SCHEMA", f"{FILE}: column {absent} is missing")


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"\0" * 8, b"\xff\xff\xff\x7fPAR1", b"\1\0\0\0PAR1", b"\x19\1\0\0\0PAR1"]
)
def test_a_missing_or_incomplete_footer_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(BadFooter):
        chunks_of(Place.at(tmp_path / FILE))


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        _Reader(data).struct(12)
    except (BadFooter, IndexError):
        pass
    stream = pa.BufferReader(data + len(data).to_bytes(4, "little") + MAGIC)
    try:
        assert isinstance(chunks(stream), list)
    except BadFooter:
        pass


def with_footer(file: Place, change: Callable[[bytes], bytes]) -> Place:
    whole = Path(file.path).read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    changed = change(whole[-8 - footer : -8])
    content = whole[: -8 - footer] + changed + len(changed).to_bytes(4, "little") + MAGIC
    Path(file.path).write_bytes(content)
    return file


UNKNOWN_FIELD = b"\x05\xf6\x7f\x02"  # an integer whose number Parquet does not use


@pytest.mark.parametrize(
    "repeated",
    [
        b"\x05\x02\x02",  # field 1 again, as an integer
        b"\x01\x02",  # field 1 again, as a boolean
        b"\x08\x02\x03abc",  # field 1 again, as a text
        2 * UNKNOWN_FIELD,
    ],
)
def test_a_repeated_field_of_a_footer_is_refused(tmp_path: Path, repeated: bytes) -> None:
    file = with_footer(write(tmp_path), lambda footer: footer[:-1] + repeated + b"\x00")
    with pytest.raises(BadFooter, match="a field occurs twice"):
        chunks_of(file)


def test_an_unknown_field_of_a_footer_is_ignored(tmp_path: Path) -> None:
    expected = chunks_of(write(tmp_path))
    assert chunks_of(with_footer(write(tmp_path), lambda footer: footer[:-1] + UNKNOWN_FIELD + b"\x00")) == expected


def test_a_footer_with_excessive_sizes_is_not_unpacked(tmp_path: Path) -> None:
    empty_structs = b"\xfc" + b"\x80\x89\x7a" + b"\x00" * 2_000_000  # a list of two million empty structs
    file = with_footer(write(tmp_path), lambda footer: footer[:-1] + b"\x09\x64" + empty_structs + b"\x00")
    with pytest.raises(BadFooter, match="too many values"):
        chunks_of(file)


def test_a_footer_with_very_many_boolean_fields_is_refused() -> None:
    with pytest.raises(BadFooter, match="too many values"):
        _read(b"\x11" * 1_000_001 + b"\x00")


def test_a_field_of_a_column_chunk_that_is_no_number_is_reported() -> None:
    column = b"\x3c" + b"\x48\x00" + b"\x15\x02" + b"\x15\x02" + b"\x00\x00"  # field 4, the codec, is a text
    footer = b"\x49\x1c" + b"\x19\x1c" + column + b"\x00\x00"  # a row group with one column
    with pytest.raises(BadFooter, match="is not a number"):
        chunks(pa.BufferReader(footer + len(footer).to_bytes(4, "little") + MAGIC))
