"""Recovery at a start: the floors and gaps of streams are restored exactly."""

import asyncio
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semq.store.embedded.cluster import DATABASE
from semq.store.postgres.owner import Owner
from semq.store.postgres.recovery import recover
from semq.store.rows import OutStreamKey
from semq.store.unit import Recovered, StoppedOrder, StreamState, first_id
from semq.umx_t.locator import Store
from tests.depth import deeper
from tests.store.postgres.notified_store import column

FRESH = UUID(int=7)
OWNER = Owner("1.10008", "host", "one")


async def opened(url: str, inc: int, new_uuid: UUID = FRESH) -> Recovered:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        _, recovered = await recover(connection, OWNER, inc, new_uuid)
        return recovered


async def opened_again(url: str, inc: int) -> Recovered:
    """Open the store as if a process had opened it before: the first opening reads no rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO semq_meta (store_uuid, boot) VALUES (%s, 1) ON CONFLICT DO NOTHING", (FRESH,))
    return await opened(url, inc)


async def test_each_opening_is_counted_and_gets_an_incarnation(database: str) -> None:
    first = await opened(database, 11)
    second = await opened(database, 22, UUID(int=8))
    assert (first.boot, first.inc, first.first_id) == (1, 11, first_id(1))
    assert (second.boot, second.inc, second.first_id) == (2, 22, first_id(2))
    assert first.store_uuid == second.store_uuid == str(FRESH)
    assert second.first_id - first.first_id == 1 << 40
    assert column(database, "SELECT inc FROM semq_incarnation ORDER BY boot") == [11, 22]


async def test_an_incarnation_is_never_used_twice(database: str) -> None:
    await opened(database, 11)
    with pytest.raises(psycopg.errors.UniqueViolation):
        await opened(database, 11)
    assert column(database, "SELECT boot FROM semq_meta") == [1]


async def test_an_empty_store_recovers_with_its_first_numbers(database: str) -> None:
    recovered = await opened(database, 1)
    assert recovered == Recovered(str(FRESH), 1, 1, first_id(1))


streams = st.dictionaries(
    st.tuples(st.sampled_from(["1.a", "1.b", "1.ä"]), st.integers(1, 2)),
    st.tuples(st.sets(st.integers(0, 12)), st.sets(st.integers(0, 12)), st.integers(0, 3)),
    max_size=4,
)


@settings(max_examples=deeper(20, 40))
@given(streams=streams)
def test_streams_recover_their_floors_and_gaps(
    database_for_all: str, streams: dict[tuple[str, int], tuple[set[int], set[int], int]]
) -> None:
    """The streams have any pattern of unsettled rows, rows with an outcome, and deleted rows."""
    rows, expected, settled = [], [], 0
    with psycopg.connect(database_for_all) as connection:
        connection.execute("DELETE FROM tb_0031")
        connection.execute("DELETE FROM tb_0031_stream")
        for (dest, inc), (open_, ended, unused_sids) in streams.items():
            next_sid = max(open_ | ended, default=-1) + 1 + unused_sids
            connection.execute("INSERT INTO tb_0031_stream VALUES (%s, %s, %s)", (dest, inc, next_sid))
            rows += [(dest, inc, sid, None if sid in open_ else 120) for sid in open_ | ended]
            settled += len(ended - open_)
            if open_:
                floor = min(open_)
                state = StreamState(OutStreamKey(dest, inc), next_sid, floor, set(range(floor, next_sid)) - open_)
                expected.append(state)
        for number, (dest, inc, sid, outcome) in enumerate(rows):
            connection.execute(
                "INSERT INTO tb_0031 (object_id, direction, lk0, inc, sid, dest, save_fwd, ack2, outcome, accepted_at)"
                " VALUES (%s, 510, 'x', %s, %s, %s, 3, true, %s, now())",
                (number, inc, sid, dest, outcome),
            )
        # A relayed row and a row of class 1 count as unsettled, but belong to no stream.
        connection.execute(
            "INSERT INTO tb_0031 (object_id, direction, lk0, inc, sid, dest, save_fwd, ack2, accepted_at)"
            " VALUES (900, 520, 'y', 1, 5, '1.a', 3, true, now()), (901, 510, 'z', 1, -1, '1.a', 1, true, now())"
        )
        (inc,) = connection.execute("SELECT coalesce(max(inc), 0) + 1 FROM semq_incarnation").fetchone() or (0,)
    recovered = asyncio.run(opened_again(database_for_all, inc))
    assert sorted(recovered.streams, key=repr) == sorted(expected, key=repr)
    assert len(recovered.settled) == settled
    assert recovered.unsettled == sum(recovered.backlog.values()) == len(rows) - settled + 2


@pytest.fixture(scope="module")
def database_for_all(postgres: Any) -> str:
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE recovering TEMPLATE {DATABASE}".encode())
    return str(postgres.url_of("recovering"))


async def test_received_rows_are_either_finished_or_pending(database: str) -> None:
    rows = [
        # bref, lk1, p_ack_status, s_ack_status, app_status, class
        (1, "'1.1.1'", 220, 220, 320, 3),  # finished
        (2, "NULL", 210, 220, 320, 3),  # finished: the hub has no copy
        (3, "'1.1.1'", 220, 210, 320, 2),  # finished: a sender of class 2 gets no acknowledgement
        (4, "NULL", 210, 220, 330, 3),  # finished: parked
        (5, "'1.1.1'", 210, 220, 320, 3),  # the hub has not noted the acknowledgement
        (6, "NULL", 210, 210, 320, 3),  # the sender has not noted the acknowledgement
        (7, "NULL", 210, 220, 310, 3),  # the application has not acknowledged the document
    ]
    with psycopg.connect(database, autocommit=True) as connection:
        for bref, lk1, p_ack, s_ack, app, save_fwd in rows:
            connection.execute(
                "INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, target, save_fwd, ack2, status, lk1,"
                " p_ack_status, s_ack_status, app_status, received_at)"
                f" VALUES ({bref}, 'x', 's', 1, 1, '1.b', {save_fwd}, true, 410, {lk1}, {p_ack}, {s_ack}, {app},"
                " now())".encode()
            )
    recovered = await opened_again(database, 1)
    assert recovered.finished == [1, 2, 3, 4]
    assert recovered.pending == 3


async def test_orders_with_a_row_that_ends_without_a_consumer_are_found(database: str) -> None:
    rows = [
        # bref, store, order_key, user, status, app_status
        (1, "1.10008.1.1", "k", "", 410, 310),
        (2, "1.10008.1.1", "k", "desk", 420, 310),
        (3, "1.10008.1.1", "k", "desk", 430, 310),
        (4, "1.10008.1.2", 'k,{}"', "", 430, 310),
        (5, "1.10008.1.1", "done", "", 420, 320),
        (6, "1.10008.1.1", "", "", 420, 310),
    ]
    with psycopg.connect(database, autocommit=True) as connection:
        for bref, store, order_key, user, status, app in rows:
            connection.execute(
                "INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, target, target_user, order_key, save_fwd,"
                " ack2, status, app_status, received_at)"
                " VALUES (%s, 'x', %s, 1, 1, '1.b', %s, %s, 3, true, %s, %s, now())",
                (bref, store, user, order_key, status, app),
            )
    recovered = await opened_again(database, 1)
    assert recovered.stopped_orders == [
        StoppedOrder(Store(1, "10008"), "k", "desk"),
        StoppedOrder(Store(1, "10008", 1, 2), 'k,{}"', ""),
    ]


async def test_only_a_group_of_ids_with_a_row_on_its_way_divides_the_spans_in_custody(database: str) -> None:
    """Of ten groups of ids, one has a row on its way, one a settled row, one a relayed row."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tb_0031 (object_id, direction, lk0, inc, sid, dest, save_fwd, ack2, accepted_at, ss_status,"
            " outcome)"
            " SELECT n, CASE n WHEN 7000 THEN 520 ELSE 510 END, n::text, 1, n, '1.b', 3, true, now(),"
            " CASE WHEN n IN (3000, 7000) THEN 20 ELSE 40 END, CASE n WHEN 5000 THEN 120 END"
            " FROM generate_series(100, 10000, 100) n"
        )
    recovered = await opened_again(database, 1)
    assert recovered.custody == [(100, 2000), (3100, 10000)]


async def test_the_copies_that_an_operator_has_refused_are_counted_by_target(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO tb_0031 (object_id, direction, lk0, inc, source, dest, save_fwd, ack2, accepted_at, ss_status,"
            " held, reason_code, reason_text) VALUES"
            " (1, 520, '1', 1, '1.a', '1.b', 3, true, now(), 20, true, 'SEMQ-1214', ''),"
            " (2, 520, '2', 1, '1.c', '1.b', 3, true, now(), 20, true, 'SEMQ-1214', ''),"
            " (3, 520, '3', 1, '1.a', '1.b', 3, true, now(), 10, true, 'SEMQ-1223', ''),"  # its body cannot be read
            " (4, 520, '4', 1, '1.a', '1.d', 3, true, now(), 10, false, NULL, NULL)"
        )
    recovered = await opened_again(database, 1)
    assert (recovered.backlog, recovered.refused) == ({"1.b": 3, "1.d": 1}, {"1.b": 2})


async def test_refusals_written_by_an_older_node_are_migrated_at_each_start(database: str) -> None:
    """An older node notes a refusal by a second row, "IDENT REJ"."""
    for boot, (first, second) in enumerate((("1.a 1", "1.a 2"), ("1.a 3", "1.a 4")), start=1):
        with psycopg.connect(database, autocommit=True) as connection:
            for ident in (first, second, f"{second} REJ", f"1.gone {boot} REJ"):
                connection.execute("INSERT INTO tb_0030_seen (ident, store) VALUES (%s, '1.a')", (ident,))
            connection.execute(
                "INSERT INTO tb_0030_seen VALUES (%s, '1.a', now(), 420, 'SEMQ-5001', 'why')", (f"1.new {boot}",)
            )
        await opened_again(database, boot)
    assert column(database, "SELECT ident || ' ' || status || ' ' || coalesce(reason_text, '-') FROM tb_0030_seen"
                  " ORDER BY ident COLLATE \"C\"") == [
        "1.a 1 410 -", "1.a 2 420 -", "1.a 3 410 -", "1.a 4 420 -", "1.new 1 420 why", "1.new 2 420 why",
    ]  # fmt: skip
