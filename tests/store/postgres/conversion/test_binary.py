"""Postgres reads packed values, and rows packed for INSERT and COPY, as the values that were packed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from semq.store.postgres.conversion.binary import (
    Milliseconds,
    Packer,
    boolean,
    int2,
    int4,
    int8,
    int8s,
    microseconds,
    moment,
    texts,
)
from semq.umx_t.status import SendStatus

texts_of_postgres = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50)
numbers = st.integers(-(2**63), 2**63 - 1)
moments = st.integers(-62_000_000_000_000, 9_000_000_000_000_000)  # a timestamptz ends in the year 294276


@pytest.fixture(scope="module")
def connection(postgres: Any) -> Any:
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as connection:
        connection.adapters.register_loader("timestamptz", Milliseconds)
        yield connection


def value_in_postgres(connection: Any, type_: str, packed: bytes | None) -> Any:
    """Return the value that Postgres received."""
    result = connection.pgconn.exec_params(f"SELECT $1::{type_}".encode(), [packed], param_formats=[1], result_format=1)
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message()
    transformer = psycopg.adapt.Transformer(connection)
    transformer.set_pgresult(result)
    ((value,),) = transformer.load_rows(0, 1, tuple)
    return value


@given(number=numbers)
def test_a_bigint_is_read_as_it_was_packed(connection: Any, number: int) -> None:
    assert value_in_postgres(connection, "bigint", int8(number)) == number


@pytest.mark.parametrize(
    ("type_", "packed", "value"),
    [
        ("smallint", int2(-300), -300),
        ("int", int4(70_000), 70_000),
        ("boolean", boolean(True), True),
        ("boolean", boolean(False), False),
    ],
)
def test_values_of_small_types_are_read_as_they_were_packed(
    connection: Any, type_: str, packed: bytes | None, value: Any
) -> None:
    assert value_in_postgres(connection, type_, packed) == value


@given(ms=moments)
def test_a_moment_is_read_as_it_was_packed(connection: Any, ms: int) -> None:
    assert value_in_postgres(connection, "timestamptz", moment(ms)) == ms


def test_a_moment_is_printed_as_its_date_and_time(connection: Any) -> None:
    at = datetime(2026, 11, 21, 12, 30, tzinfo=UTC) + timedelta(milliseconds=7)
    result = connection.pgconn.exec_params(b"SELECT $1::timestamptz::text", [moment(1_795_264_200_007)], [1184], [1])
    assert datetime.fromisoformat(result.get_value(0, 0).decode()) == at


@given(values=st.lists(numbers, max_size=20))
def test_an_array_of_numbers_is_read_as_it_was_packed(connection: Any, values: list[int]) -> None:
    assert value_in_postgres(connection, "bigint[]", int8s(values)) == values


@given(values=st.lists(texts_of_postgres, max_size=20))
def test_an_array_of_texts_is_read_as_it_was_packed(connection: Any, values: list[str]) -> None:
    assert value_in_postgres(connection, "text[]", texts(values)) == values


things = Table(
    "things",
    MetaData(),
    Column("a", BigInteger),
    Column("b", Text),
    Column("c", DateTime(timezone=True)),
    Column("d", SmallInteger),
    Column("e", Integer),
    Column("f", Boolean),
    Column("g", LargeBinary),
    Column("h", Double),
)
rows = st.lists(
    st.tuples(
        numbers,
        st.none() | texts_of_postgres,
        moments,
        st.integers(-(2**15), 2**15 - 1) | st.sampled_from(SendStatus),
        st.integers(-(2**31), 2**31 - 1),
        st.booleans(),
        st.binary(max_size=9) | st.binary().map(lambda data: memoryview(data)),
        st.none() | st.floats(allow_nan=False),
    ),
    max_size=10,
)
Row = tuple[Any, ...]


@pytest.fixture(scope="module")
def packer(connection: Any) -> Packer:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    connection.execute(str(CreateTable(things).compile(dialect=dialect)).replace("TABLE", "TEMP TABLE", 1))
    return Packer(connection, [things])


def values(row: Row) -> Row:
    return (*row[:2], microseconds(row[2]), *row[3:])


def stored_rows(connection: Any) -> list[Row]:
    return list(connection.cursor(binary=True).execute("SELECT * FROM things").fetchall())


@given(rows=rows)
def test_rows_written_by_copy_are_read_as_they_were_packed(connection: Any, packer: Packer, rows: list[Row]) -> None:
    with connection.transaction(force_rollback=True):
        with connection.cursor().copy("COPY things FROM STDIN (FORMAT binary)") as copy:
            copy.write(packer.copy_data("things", map(values, rows)))
        assert sorted(stored_rows(connection), key=repr) == sorted(map(_plain, rows), key=repr)


@given(rows=rows)
def test_rows_written_by_insert_are_read_as_they_were_packed(connection: Any, packer: Packer, rows: list[Row]) -> None:
    with connection.transaction(force_rollback=True):
        for row in rows:
            statement = b"INSERT INTO things VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            result = connection.pgconn.exec_params(statement, packer.params("things", values(row)), None, [1] * 8)
            assert result.status == pq.ExecStatus.COMMAND_OK, result.error_message()
        assert sorted(stored_rows(connection), key=repr) == sorted(map(_plain, rows), key=repr)


def _plain(row: Row) -> Row:
    return (*row[:3], int(row[3]), *row[4:6], bytes(row[6]), row[7])


@pytest.mark.parametrize("bad", [(2**63, "x"), (1, "\ud800"), ("no number", "x"), (1, 5)])
def test_values_of_the_wrong_type_or_range_are_refused(connection: Any, packer: Packer, bad: tuple[Any, str]) -> None:
    row = values((*bad, 0, 1, 1, True, b"", 0.0))
    with pytest.raises((ValueError, OverflowError, TypeError, psycopg.DataError)):
        packer.copy_data("things", [row])
    with pytest.raises((ValueError, OverflowError, TypeError, psycopg.DataError)):
        packer.params("things", row)
