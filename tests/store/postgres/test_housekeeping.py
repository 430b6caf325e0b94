"""Expired rows are deleted, and no others: each table with rows on both sides of its limit."""

from datetime import date, timedelta
from typing import Any

import psycopg
import pytest

from semq.store.postgres import housekeeping
from semq.store.postgres.housekeeping import Keep, tidy
from semq.store.postgres.ledger_partitions import partition_of
from tests.store.postgres.notified_store import accepting, column, open_notified_store

TODAY = date(2026, 11, 21)


def fill(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


async def test_a_process_that_is_suspended_while_it_tidies_keeps_no_locks(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "ENDED_IF_SUSPENDED", "-c idle_in_transaction_session_timeout=0.2s")

    async def suspended(connection: psycopg.AsyncConnection[Any], values: object) -> int:
        async with connection.transaction(), await psycopg.AsyncConnection.connect(database) as other:
            await connection.execute("LOCK tb_0031_token")
            await other.execute("LOCK tb_0031_token")  # as soon as the server has ended the session
            await connection.execute("SELECT 1")
        return 0

    monkeypatch.setattr(housekeeping, "_forget_audit", suspended)
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        await tidy(database, TODAY)


async def test_tokens_are_forgotten_by_age(database: str) -> None:
    fill(
        database,
        "INSERT INTO tb_0031_token (token, lk0, digest, at)"
        " SELECT n, 'x', '', now() - n * interval '1 day' FROM generate_series(1, 20) n",
    )
    assert (await tidy(database, TODAY, Keep(token_days=7)))["tokens"] == 14
    assert column(database, "SELECT token::int FROM tb_0031_token ORDER BY 1") == list(range(1, 7))


async def test_figures_of_short_periods_are_forgotten_first(database: str) -> None:
    fill(
        database,
        "INSERT INTO semq_figure SELECT m, '', '', now() - n * interval '1 day' + interval '1 minute', 1, 1, -1, 1"
        " FROM generate_series(1, 500) n, unnest(ARRAY[1, 60, 1440]) m",
    )
    assert (await tidy(database, TODAY, Keep(ledger_days=400)))["figures"] == 498 + 400 + 100
    counts = column(database, "SELECT count(*)::int FROM semq_figure GROUP BY minutes ORDER BY minutes")
    assert counts == [2, 100, 400]


async def test_names_of_submissions_are_forgotten_by_age_once_the_submission_is_deleted(database: str) -> None:
    fill(
        database,
        "INSERT INTO tb_0031_submit (target, payload) VALUES ('56001', '')",  # number 1 still waits
        "INSERT INTO tb_0031_renamed (lk0, number, at)"
        " SELECT 'name' || n, (n + 9) / 10, now() - n * interval '1 day' FROM generate_series(1, 20) n",
    )
    assert (await tidy(database, TODAY, Keep(token_days=7)))["renamed"] == 10
    assert column(database, "SELECT count(*) FROM tb_0031_renamed WHERE number = 1") == [10]


async def test_many_rows_are_deleted_in_small_batches(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "BATCH", 3)
    fill(
        database,
        "INSERT INTO tb_0031_token (token, lk0, digest, at)"
        " SELECT n, 'x', '', now() - interval '8 days' FROM generate_series(1, 10) n",
        "INSERT INTO tb_0031_order (dest, order_key, inc, sid) SELECT 'x', n, 1, n FROM generate_series(1, 10) n",
    )
    deleted = await tidy(database, TODAY)
    assert (deleted["tokens"], deleted["order_keys"]) == (10, 10)


async def test_idents_stay_for_some_days_and_the_newest_of_each_store_always(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "SEEN_KEPT", 5)
    fill(
        database,
        # The busy source has six idents of the last seven days, the quiet source only old ones.
        "INSERT INTO tb_0030_seen SELECT 'busy' || n, 'busy', now() - n * interval '1 day'"
        " FROM generate_series(1, 20) n",
        "INSERT INTO tb_0030_seen SELECT 'quiet' || n, 'quiet', now() - (n + 50) * interval '1 day'"
        " FROM generate_series(1, 7) n",
    )
    assert (await tidy(database, TODAY, Keep(seen_days=7)))["seen"] == 14 + 2
    assert column(database, "SELECT count(*) FROM tb_0030_seen WHERE store = 'busy'") == [6]
    assert column(database, "SELECT ident FROM tb_0030_seen WHERE store = 'quiet' ORDER BY 1") == [
        f"quiet{n}" for n in range(1, 6)
    ]


async def test_closed_streams_are_deleted_with_their_ledger_entries(database: str) -> None:
    old = "now() - interval '91 days'"
    fill(
        database,
        "INSERT INTO tb_0030_stream (number, store, inc, floor, closed, moved_at) VALUES"
        f" (1, 'a', 1, 0, 9, {old}), (2, 'a', 2, 0, NULL, {old}), (3, 'a', 3, 0, 9, now()), (4, 'a', 4, 0, 9, {old})",
        "INSERT INTO tb_0030_ledger (stream, sid, status) SELECT n, 5, 410 FROM generate_series(1, 4) n",
        "INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, sid, target, save_fwd, ack2, status, received_at)"
        " VALUES (1, 'x', 'a', 4, 1, 5, '1.b', 3, true, 410, now())",
    )
    deleted = await tidy(database, TODAY)
    assert (deleted["streams_received"], deleted["entries_of_streams_gone"]) == (1, 1)
    assert column(database, "SELECT number FROM tb_0030_stream ORDER BY 1") == [2, 3, 4]
    assert column(database, "SELECT stream FROM tb_0030_ledger ORDER BY 1") == [2, 3, 4]


async def test_streams_of_old_incarnations_are_deleted_after_their_rows(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "INCARNATIONS_KEPT", 2)
    fill(
        database,
        "INSERT INTO semq_incarnation (inc, boot) SELECT n * 10, n FROM generate_series(1, 4) n",
        "INSERT INTO tb_0031_stream (dest, inc, next_sid) SELECT '1.b', n * 10, 7 FROM generate_series(1, 4) n",
        "INSERT INTO tb_0031 (object_id, direction, lk0, inc, sid, dest, save_fwd, ack2, accepted_at)"
        " VALUES (1, 510, 'x', 20, 3, '1.b', 3, true, now())",
    )
    assert (await tidy(database, TODAY))["streams_sent"] == 1
    assert column(database, "SELECT inc FROM tb_0031_stream ORDER BY 1") == [20, 30, 40]


async def test_order_keys_of_settled_messages_are_deleted(database: str) -> None:
    fill(
        database,
        "INSERT INTO tb_0031_order (dest, order_key, inc, sid) VALUES ('1.b', 'open', 1, 3), ('1.b', 'settled', 1, 4)",
        "INSERT INTO tb_0031 (object_id, direction, lk0, inc, sid, dest, save_fwd, ack2, accepted_at)"
        " VALUES (1, 510, 'x', 1, 3, '1.b', 3, true, now())",
    )
    assert (await tidy(database, TODAY))["order_keys"] == 1
    assert column(database, "SELECT order_key FROM tb_0031_order") == ["open"]


async def test_an_order_key_whose_position_moves_between_the_two_steps_stays(database: str) -> None:
    """The writer accepts another message with the key meanwhile."""
    fill(database, "INSERT INTO tb_0031_order (dest, order_key, inc, sid) VALUES ('1.b', 'k', 1, 4)")
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        rows = await (await connection.execute(housekeeping.SETTLED_KEYS.encode(), {"batch": 9})).fetchall()
        assert rows == [("1.b", "k", 1, 4)]
        fill(database, "UPDATE tb_0031_order SET sid = 5")
        deleted = await connection.execute(
            housekeeping.FORGET_KEYS, [list(values) for values in zip(*rows, strict=True)]
        )
        assert deleted.rowcount == 0


async def test_old_partitions_of_the_ledger_are_dropped_and_new_ones_made(database: str) -> None:
    async with open_notified_store(database) as notified:
        await tidy(database, TODAY - timedelta(400))
        await tidy(database, TODAY - timedelta(3), Keep(ledger_days=None))
        assert await notified.do(accepting(1)) == [None]
        assert (await tidy(database, TODAY, Keep(ledger_days=30)))["ledger_days"] == 5
    names = column(
        database, "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'semq_ledger'::regclass"
    )
    assert partition_of(TODAY + timedelta(3)) in names
    assert partition_of(TODAY - timedelta(400)) not in names


async def test_rows_that_cannot_be_deleted_keep_no_others(database: str) -> None:
    fill(
        database,
        "INSERT INTO tb_0031_token (token, lk0, digest, at) VALUES ('old', 'x', '', now() - interval '90 days')",
        "INSERT INTO tb_0031_taken (number, lk0, at) VALUES (1, 'x', now() - interval '90 days')",
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'kept for the audit'; END $$",
        "CREATE TRIGGER refuse BEFORE DELETE ON tb_0031_token FOR EACH ROW EXECUTE FUNCTION refuse()",
    )
    with pytest.raises(psycopg.Error, match="kept for the audit"):
        await tidy(database, TODAY)
    assert column(database, "SELECT count(*) FROM tb_0031_taken") == [0]
    assert column(database, "SELECT count(*) FROM tb_0031_token") == [1]
