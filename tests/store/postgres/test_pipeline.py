"""A connection in pipeline mode: order of results, errors in a batch, COPY, large data, lost connections."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import BigInteger, Column, LargeBinary, MetaData, Table

from semq.store.postgres.conversion.binary import Packer, int8
from semq.store.postgres.errors import StoreUnavailable
from semq.store.postgres.pipeline import OPTIONS, PipelineWire, StatementRefused

STATEMENTS = {
    "begin": "BEGIN",
    "commit": "COMMIT",
    "rollback": "ROLLBACK",
    "double": "SELECT $1::bigint * 2",
    "many": "SELECT n FROM generate_series(1, $1::bigint) n",
    "divide": "SELECT 1 / $1::bigint",
    "echo": "SELECT $1::bytea",
    "insert": "INSERT INTO t (a, b) VALUES ($1, $2)",
    "sum": "SELECT coalesce(sum(a), 0)::bigint FROM t",
    "nap": "SELECT pg_sleep($1::bigint)",
    "say": "SELECT pg_notify('channel', '')",
}


@asynccontextmanager
async def open_wire(url: str) -> AsyncIterator[tuple[PipelineWire, list[StoreUnavailable], list[str]]]:
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True, options=OPTIONS)
    await connection.execute("CREATE TEMP TABLE t (a bigint PRIMARY KEY, b bytea)")
    await connection.execute("LISTEN channel")
    lost: list[StoreUnavailable] = []
    received: list[str] = []
    wire = PipelineWire(connection, lost.append, received.append)
    await wire.prepare(STATEMENTS)
    try:
        yield wire, lost, received
    finally:
        wire.drop(StoreUnavailable())


async def test_results_come_in_the_order_of_their_batches(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, lost, _):
        first = wire.send([("double", [int8(n)]) for n in range(100)])
        second = wire.send([("many", [int8(3)]), ("many", [int8(0)])])
        assert [wire.rows(result) for result in await first] == [[(2 * n,)] for n in range(100)]
        assert [wire.rows(result) for result in await second] == [[(1,), (2,), (3,)], []]
        assert lost == []


async def test_an_error_ends_its_own_batch_only(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, lost, _):
        bad = wire.send([("double", [int8(1)]), ("divide", [int8(0)]), ("insert", [int8(1), b""])])
        good = wire.send([("sum", ())])
        with pytest.raises(StatementRefused) as caught:
            await bad
        assert (caught.value.sqlstate, caught.value.text) == ("22012", "division by zero")
        assert wire.rows((await good)[0]) == [(0,)]
        assert lost == []


async def test_statements_without_a_waiting_caller_run_in_order(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, _, _):
        wire.send_unawaited([("insert", [int8(5), b""])])
        wire.send_unawaited([("divide", [int8(0)])])
        assert wire.rows((await wire.send([("sum", ())]))[0]) == [(5,)]


async def test_large_values_are_sent_and_received_at_the_same_time(empty_database: str) -> None:
    """The sockets cannot buffer the data: a side that writes must also read, or both wait."""
    async with open_wire(empty_database) as (wire, _, _):
        data = bytes(range(256)) * 4096 * 8
        results = await wire.send([("echo", [data])] * 6)
        assert all(wire.rows(result) == [(data,)] for result in results)


def data_of(wire: PipelineWire, numbers: Iterable[int], size: int = 0) -> bytearray:
    table = Table("t", MetaData(), Column("a", BigInteger), Column("b", LargeBinary))
    return Packer(wire._connection, [table]).copy_data("t", [(n, bytes(size)) for n in numbers])


async def test_several_copies_and_a_commit_are_one_exchange(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, _, _):
        await wire.send([("begin", ())])
        copy_in = "COPY t FROM STDIN (FORMAT binary)"
        pieces = [data_of(wire, range(1000), 5000), data_of(wire, range(1000, 2000), 5000)]
        results = await wire.copy(f"{copy_in}; {copy_in}; COMMIT", pieces)
        assert [result.command_status for result in results] == [b"COPY 1000", b"COPY 1000", b"COMMIT"]
        assert wire.rows((await wire.send([("sum", ())]))[0]) == [(1999 * 1000,)]


async def test_a_copy_that_is_refused_leaves_the_connection_usable(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, lost, _):
        await wire.send([("begin", ()), ("insert", [int8(1), b""])])
        with pytest.raises(StatementRefused) as caught:
            await wire.copy("COPY t FROM STDIN (FORMAT binary); COMMIT", [data_of(wire, [1])])
        assert (caught.value.sqlstate, caught.value.constraint) == ("23505", "t_pkey")
        wire.send_unawaited([("rollback", ())])
        assert wire.rows((await wire.send([("sum", ())]))[0]) == [(0,)]
        assert lost == []


async def test_a_copy_that_is_refused_long_before_its_end_leaves_the_connection_usable(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, lost, _):
        await wire.send([("insert", [int8(1), b""])])
        await wire.send([("begin", ())])
        with pytest.raises(StatementRefused) as caught:
            await wire.copy("COPY t FROM STDIN (FORMAT binary); COMMIT", [data_of(wire, range(1, 2000), 20_000)])
        assert caught.value.sqlstate == "23505"
        wire.send_unawaited([("rollback", ())])
        assert wire.rows((await wire.send([("sum", ())]))[0]) == [(1,)]
        assert lost == []


async def test_a_statement_that_does_not_match_the_schema_is_refused_when_it_is_prepared(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, _, _):
        with pytest.raises(StatementRefused) as caught:
            await wire.prepare({"bad": "SELECT no_such_column FROM t"})
        assert caught.value.sqlstate == "42703"


async def test_a_lost_connection_is_reported_once(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, lost, _):
        waiting = [wire.send([("nap", [int8(60)])]), wire.send([("sum", ())])]
        with psycopg.connect(empty_database, autocommit=True) as other:
            other.execute(sql.SQL("SELECT pg_terminate_backend({})").format(sql.Literal(wire.pid)))
        for future in waiting:
            with pytest.raises((StoreUnavailable, StatementRefused)):
                await future
        with pytest.raises(StoreUnavailable):
            await wire.send([("sum", ())])
        wire.send_unawaited([("sum", ())])
        assert len(lost) == 1
        assert wire.closed


@pytest.mark.parametrize("how", ["send", "copy", "forgetting"])
async def test_a_connection_that_breaks_while_it_sends_is_reported_once(empty_database: str, how: str) -> None:
    """The wire sends a batch before it has noticed that its socket is shut down."""
    async with open_wire(empty_database) as (wire, lost, _):
        with socket.socket(fileno=os.dup(wire._fd)) as own_end:
            own_end.shutdown(socket.SHUT_RDWR)
        if how == "forgetting":
            wire.send_unawaited([("sum", ())])
        else:
            answer = wire.send([("sum", ())]) if how == "send" else wire.copy("COPY t FROM STDIN", [b""])
            with pytest.raises(StoreUnavailable):
                await answer
        with pytest.raises(StoreUnavailable):
            await wire.send([("sum", ())])
        assert len(lost) == 1


async def test_dropping_the_connection_fails_the_batches_in_progress(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, lost, _):
        future = wire.send([("nap", [int8(60)])])
        fault = StoreUnavailable("on purpose")
        wire.drop(fault)
        with pytest.raises(StoreUnavailable, match="on purpose"):
            await future
        assert lost == []


async def test_later_batches_get_their_results_although_an_earlier_caller_was_cancelled(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, _, _):
        wire.send([("sum", ())]).cancel()
        bad = wire.send([("divide", [int8(0)])])
        bad.cancel()
        assert wire.rows((await wire.send([("sum", ())]))[0]) == [(0,)]


async def test_a_notification_of_postgres_reaches_its_receiver(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, _, channels):
        await wire.send([("say", ())])
        while not channels:
            await asyncio.sleep(0)
            await wire.send([("sum", ())])
        assert channels == ["channel"]


async def test_an_unexpected_answer_ends_the_connection(empty_database: str) -> None:
    async with open_wire(empty_database) as (wire, lost, _):
        received: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: received.append(context["exception"]))
        with pytest.raises(StoreUnavailable):
            await wire.copy("COPY t FROM STDIN", [])  # without the data for which Postgres asks
        assert len(lost) == len(received) == 1
        assert wire.closed
