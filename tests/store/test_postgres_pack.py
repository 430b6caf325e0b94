"""What is packed by hand is what Postgres reads: each format against a real server, there and back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq

from semq.store.postgres_pack import (
    Milliseconds,
    boolean,
    copy_data,
    float8,
    int2,
    int4,
    int8,
    int8s,
    maybe_text,
    moment,
    texts,
)

texts_of_postgres = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50)
numbers = st.integers(-(2**63), 2**63 - 1)
moments = st.integers(-62_000_000_000_000, 9_000_000_000_000_000)  # a timestamptz ends in the year 294276


@pytest.fixture(scope="module")
def connection(postgres: Any) -> Any:
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as connection:
        connection.adapters.register_loader("timestamptz", Milliseconds)
        connection.execute("CREATE TEMP TABLE copied (a bigint, b text, c timestamptz, d bigint[], e text[])")
        yield connection


def told(connection: Any, type_: str, packed: bytes | None) -> Any:
    """What Postgres understood, read back by psycopg."""
    result = connection.pgconn.exec_params(f"SELECT $1::{type_}".encode(), [packed], param_formats=[1], result_format=1)
    assert result.status == pq.ExecStatus.TUPLES_OK, result.error_message()
    transformer = psycopg.adapt.Transformer(connection)
    transformer.set_pgresult(result)
    ((value,),) = transformer.load_rows(0, 1, tuple)
    return value


@given(number=numbers)
def test_bigint(connection: Any, number: int) -> None:
    assert told(connection, "bigint", int8(number)) == number


@pytest.mark.parametrize(
    ("type_", "packed", "value"),
    [
        ("smallint", int2(-300), -300),
        ("int", int4(70_000), 70_000),
        ("double precision", float8(0.1), 0.1),
        ("boolean", boolean(True), True),
        ("boolean", boolean(False), False),
        ("text", maybe_text(None), None),
        ("text", maybe_text("ü"), "ü"),
    ],
)
def test_small_types(connection: Any, type_: str, packed: bytes | None, value: Any) -> None:
    assert told(connection, type_, packed) == value


@given(ms=moments)
def test_moments(connection: Any, ms: int) -> None:
    assert told(connection, "timestamptz", moment(ms)) == ms


def test_a_moment_is_what_people_read(connection: Any) -> None:
    at = datetime(2026, 11, 21, 12, 30, tzinfo=UTC) + timedelta(milliseconds=7)
    result = connection.pgconn.exec_params(b"SELECT $1::timestamptz::text", [moment(1_795_264_200_007)], [1184], [1])
    assert datetime.fromisoformat(result.get_value(0, 0).decode()) == at


@given(values=st.lists(numbers, max_size=20))
def test_arrays_of_numbers(connection: Any, values: list[int]) -> None:
    assert told(connection, "bigint[]", int8s(values)) == values


@given(values=st.lists(texts_of_postgres, max_size=20))
def test_arrays_of_texts(connection: Any, values: list[str]) -> None:
    assert told(connection, "text[]", texts(values)) == values


rows = st.lists(
    st.tuples(
        numbers, st.none() | texts_of_postgres, moments, st.lists(numbers, max_size=3), st.lists(texts_of_postgres)
    ),
    max_size=10,
)


@given(rows=rows)
def test_copy(connection: Any, rows: list[tuple[int, str | None, int, list[int], list[str]]]) -> None:
    data = copy_data([(int8(a), maybe_text(b), moment(c), int8s(d), texts(e)) for a, b, c, d, e in rows])
    with connection.transaction():
        connection.execute("DELETE FROM copied")
        with connection.cursor().copy("COPY copied FROM STDIN (FORMAT binary)") as copy:
            copy.write(data)
        found = connection.cursor(binary=True).execute("SELECT * FROM copied").fetchall()
    assert sorted(found, key=repr) == sorted(rows, key=repr)
