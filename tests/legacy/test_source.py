"""Sources of an import: rows of databases and of CSV files, and unreadable sources."""

import sqlite3
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from semq.legacy.errors import BadMapping, DriverMissing, NoOldTables, SourceUnavailable, UnreadableSource
from semq.legacy.mapping import OUTBOUND, OldTables, read_mapping
from semq.legacy.old_rows import OldRowRefused, Reason
from semq.legacy.source import SMALL, OldSource, open_source
from tests.legacy import sample

ROWS = [sample.outbound(number, app_data=bytes([number, 0, 255])) for number in (3, 1, 2)]


@pytest.fixture
def mapping() -> OldTables:
    return read_mapping(None)


def database_of(kind: str, folder: Path, request: pytest.FixtureRequest) -> str:
    if kind == "mariadb":
        url: str = request.getfixturevalue("mariadb")
        return url
    return str(request.getfixturevalue("empty_database")) if kind == "postgres" else f"sqlite:///{folder}/old.db"


def read(source: OldSource, mapping: OldTables) -> list[tuple[int, bytes]]:
    """Return record number and payload of each row of tb_0031."""
    [table] = [table for table in mapping.tables if table.kind == OUTBOUND]
    assert source.has(table)
    return [(int(row["object_id"]), source.payload(table, row)) for row in source.rows(table)]


@pytest.mark.parametrize("kind", ["sqlite file", "sqlite URL", "postgres", "mariadb"])
def test_rows_of_a_database_are_sorted_by_record_number(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, mapping: OldTables
) -> None:
    url = database_of(kind, tmp_path, request)
    sample.fill(url, ROWS)
    source = open_source(f"{tmp_path}/old.db" if kind == "sqlite file" else url, mapping)
    assert read(source, mapping) == [(number, bytes([number, 0, 255])) for number in (1, 2, 3)]
    source.close()


def test_rows_of_csv_files_are_in_the_order_of_the_file(tmp_path: Path, mapping: OldTables) -> None:
    sample.write_csv(tmp_path, ROWS)
    rows: list[tuple[int, Any]] = list(read(open_source(str(tmp_path), mapping), mapping))
    assert rows == [(3, "AwD/"), (1, "AQD/"), (2, "AgD/")]
    assert read(open_source(str(tmp_path / "tb_0031.csv"), mapping), mapping) == rows


def test_the_name_of_a_source_does_not_contain_the_password(empty_database: str, mapping: OldTables) -> None:
    sample.fill(empty_database)
    source = open_source(empty_database, mapping)
    assert "***" in source.name or "@" not in source.name
    source.close()


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing.db", SourceUnavailable), ("missing.csv", UnreadableSource), ("other.csv", NoOldTables),
        ("sqlite:////nowhere/x.db", SourceUnavailable), ("no+such://h/db", DriverMissing),
        ("oracle://u:secret@127.0.0.1:1/x", DriverMissing), ("postgresql://u:secret@127.0.0.1:1/x", SourceUnavailable),
        ("://", SourceUnavailable), ("broken.db", SourceUnavailable),
    ],
)  # fmt: skip
def test_the_error_of_an_unreadable_source_does_not_contain_the_password(
    name: str, error: type[Exception], tmp_path: Path, mapping: OldTables
) -> None:
    (tmp_path / "other.csv").write_text("a,b\n")
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)
    with pytest.raises(error) as caught:
        open_source(name if "://" in name else str(tmp_path / name), mapping)
    assert "secret" not in str(caught.value)


def test_an_error_names_the_required_column_that_a_table_does_not_have(tmp_path: Path, mapping: OldTables) -> None:
    (tmp_path / "tb_0031.csv").write_text("object_id,ss_status,app_data\n")
    with pytest.raises(BadMapping, match="target"):
        open_source(str(tmp_path), mapping)


def test_broken_text_in_a_file_is_an_error(tmp_path: Path, mapping: OldTables) -> None:
    (tmp_path / "tb_0031.csv").write_bytes(b"object_id,ss_status,target,app_data\n1,0,56001,\xff\xfe\n")
    with pytest.raises(UnreadableSource):
        read(open_source(str(tmp_path), mapping), mapping)


def test_rows_are_not_read_ahead(tmp_path: Path, mapping: OldTables) -> None:
    path = tmp_path / "tb_0031.csv"
    with path.open("w") as stream:
        stream.write("object_id,ss_status,target,app_data\n" + "1,0,56001,x\n" * 5 + "2,0,56001,\0broken\n" * 100_000)
    [table] = [table for table in mapping.tables if table.kind == OUTBOUND]
    source = open_source(str(path), mapping)
    assert source.has(table)
    assert len(list(islice(source.rows(table), 5))) == 5


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
def test_payloads_of_any_size_are_read(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, mapping: OldTables
) -> None:
    url = database_of(kind, tmp_path, request)
    bodies = [b"", b"x", bytes(SMALL), bytes(SMALL + 1), bytes(3_000_000)]
    sample.fill(url, [sample.outbound(number, app_data=body) for number, body in enumerate(bodies)])
    source = open_source(url, mapping)
    assert [body for _, body in read(source, mapping)] == bodies
    source.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "mariadb"])
@pytest.mark.parametrize("name", ["semq_db_id", "source", "lk0_node_id", "lk0_object_id"])
def test_a_large_payload_is_read_from_its_own_row_if_another_store_has_the_same_record_number(
    name: str, kind: str, tmp_path: Path, request: pytest.FixtureRequest, mapping: OldTables
) -> None:
    url = database_of(kind, tmp_path, request)
    letters = {1: b"1", 2: b"2", None: b"-"}
    sample.fill(url, [sample.outbound(7, app_data=a * (SMALL + 1)) | {name: value} for value, a in letters.items()])
    source = open_source(url, mapping)
    [table] = [table for table in mapping.tables if table.kind == OUTBOUND]
    assert source.has(table)
    [meaning] = [meaning for meaning, column in table.columns.items() if column == name]
    found = {row[meaning]: source.payload(table, row)[:1] for row in source.rows(table)}
    assert {value and int(value): letter for value, letter in found.items()} == letters
    source.close()


def test_a_large_payload_is_refused_if_two_rows_have_the_same_identity(tmp_path: Path, mapping: OldTables) -> None:
    url = f"sqlite:///{tmp_path}/old.db"
    sample.fill(url, [sample.outbound(7, app_data=body * (SMALL + 1)) for body in (b"a", b"b")])
    source = open_source(url, mapping)
    with pytest.raises(OldRowRefused) as caught:
        read(source, mapping)
    assert caught.value.reason is Reason.SAME_ID
    source.close()


def test_a_view_with_other_numbers_is_read_instead_of_a_table(tmp_path: Path) -> None:
    sample.fill(f"sqlite:///{tmp_path}/old.db", ROWS)
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        connection.execute(
            "CREATE VIEW second AS SELECT object_id + 1000 AS object_id, ss_status, target, app_data FROM tb_0031"
        )
    (tmp_path / "mapping.toml").write_text('[tb_0031]\ntable = "second"\n')
    mapping = read_mapping(tmp_path / "mapping.toml")
    source = open_source(str(tmp_path / "old.db"), mapping)
    assert [number for number, _ in read(source, mapping)] == [1001, 1002, 1003]
    source.close()
