"""The function ``semq_receive``: no source delays another, and the highest priority of each source comes first.

Documents of a hostile sender neither stop nor delay others. The last tests are about functions with the owner's rights,
and about the statements of the writer.
"""

from typing import Any

import msgspec
import psycopg
import pytest

from semq.amqp.wire import encode_fields
from semq.store.postgres.changes import _RARE
from semq.store.postgres.load import _QUERIES
from semq.store.postgres.statements import QUERY, STATEMENTS

INSERT = """
    INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, sid, target, target_user, save_fwd, ack2, status,
        received_at, source, priority)
    SELECT n, %(node)s || '.1.1.5.' || n, %(node)s || '.1.1', 5, n, n, '1.56001', %(user)s, 3, true, 410, now(),
        %(node)s, %(priority)s
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) n"""
BODY = """
    INSERT INTO tb_0030_body (bref, envelope, payload)
    SELECT bref, %s, convert_to(lk0, 'UTF8') FROM tb_0030 ON CONFLICT DO NOTHING"""
ENVELOPE = msgspec.json.encode({"attributes": {}})


def insert_waiting(
    connection: psycopg.Connection, node: str, first: int, last: int, priority: int = 0, user: str = ""
) -> None:
    facts = {"node": node, "first": first, "last": last, "priority": priority, "user": user}
    connection.execute(INSERT, facts)
    connection.execute(BODY, [ENVELOPE])


def receive(connection: psycopg.Connection, at_most: int, user: str = "") -> list[int]:
    rows = connection.execute("SELECT bref FROM semq_receive(%s, %s)", [user, at_most]).fetchall()
    return [row[0] for row in rows]


def test_sources_take_turns_and_priorities_come_first(database: str) -> None:
    with psycopg.connect(database) as connection:
        insert_waiting(connection, "1.77001", 1, 500)
        insert_waiting(connection, "1.88001", 501, 502)
        insert_waiting(connection, "1.88001", 503, 503, priority=9)
        insert_waiting(connection, "1.99001", 504, 504, user="buyer")
        brefs = receive(connection, 8)
        assert sorted(brefs) == [1, 2, 3, 4, 5, 501, 502, 503]
        assert [bref for bref in brefs if bref > 500] == [503, 501, 502]
        assert [bref for bref in brefs if bref <= 500] == [1, 2, 3, 4, 5]
        assert set(brefs[:2]) == {1, 503}
        assert receive(connection, 9, "buyer") == [504]
        assert receive(connection, 9, "nobody") == []


def test_rows_locked_by_another_transaction_are_skipped_and_a_finished_source_yields_its_turns(database: str) -> None:
    with psycopg.connect(database) as connection, psycopg.connect(database) as other:
        insert_waiting(connection, "1.77001", 1, 4)
        insert_waiting(connection, "1.88001", 5, 6)
        connection.commit()
        assert len(receive(connection, 3)) == 3
        unlocked = receive(other, 100)
        assert len(unlocked) == 3
        other.execute("SELECT semq_done(%s)", [unlocked[0]])
        other.commit()
        connection.rollback()
        assert sorted([*receive(connection, 100), unlocked[0]]) == [1, 2, 3, 4, 5, 6]


def test_a_call_reads_the_returned_rows_and_not_all_waiting_ones(database: str) -> None:
    """Postgres counts the rows of tb_0030 that a call reads."""

    def rows_read(connection: psycopg.Connection) -> int:
        row = connection.execute(
            "SELECT coalesce(pg_stat_get_xact_tuples_returned(c.oid), 0) + (SELECT coalesce(sum("
            "pg_stat_get_xact_tuples_fetched(i.indexrelid)), 0) FROM pg_index i WHERE i.indrelid = c.oid)"
            " FROM pg_class c WHERE c.relname = 'tb_0030'"
        ).fetchone()
        assert row is not None
        return int(row[0])

    costs = []
    for count in (10, 3000):
        with psycopg.connect(database) as connection:
            connection.execute("TRUNCATE tb_0030, tb_0030_body")
            insert_waiting(connection, "1.77001", 1, count)
            insert_waiting(connection, "1.88001", count + 1, 2 * count, priority=3)
            connection.commit()
            connection.execute("ANALYZE tb_0030")
            connection.commit()
            before = rows_read(connection)
            assert len(receive(connection, 2)) == 2
            costs.append(rows_read(connection) - before)
            connection.rollback()
    assert costs[1] <= costs[0] + 20, costs


def test_documents_that_cannot_be_returned_are_not_locked(database: str) -> None:
    """A server has few locks."""
    with psycopg.connect(database) as connection:
        insert_waiting(connection, "1.77001", 1, 3000)
        connection.execute("UPDATE tb_0030 SET order_key = 'K'")
        insert_waiting(connection, "1.77001", 3001, 4000)
        connection.execute("INSERT INTO tb_0030_done (bref) SELECT generate_series(3001, 4000)")
        insert_waiting(connection, "1.77001", 4001, 4010)
        connection.commit()
        assert receive(connection, 5) == [1, 4001, 4002, 4003, 4004]
        count = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
        assert connection.execute(count).fetchone() == (5,)


def set_attributes(
    connection: psycopg.Connection, bref: int, attributes: dict[str, Any], payload: bytes = b"x"
) -> None:
    """Store a body with these attributes."""
    envelope = msgspec.json.encode({"attributes": attributes})
    connection.execute("UPDATE tb_0030_body SET envelope = %s, payload = %s WHERE bref = %s", [envelope, payload, bref])


def test_zero_characters_in_headers_are_replaced_and_others_are_unchanged(database: str) -> None:
    given = {"note": "x\0\0y", "same": ["\\000 \x01 \u0700 \N{PILE OF POO}", "00", ""], "@Unknown": "\0"}
    with psycopg.connect(database) as connection:
        insert_waiting(connection, "1.77001", 1, 2)
        set_attributes(connection, 1, {"user_headers": encode_fields(given), "content_type": "text\0"})
        rows = connection.execute("SELECT bref, headers, content_type FROM semq_receive('', 9)").fetchall()
    expected = {"note": "x\ufffd\ufffdy", "same": given["same"], "@Unknown": "\ufffd"}
    assert rows == [(1, expected, "text\ufffd"), (2, {}, "")]


@pytest.mark.parametrize(
    "unknown",
    [b'"\\u0000"', b'"\\ud800"', b"1e200000", b"[" * 3_500 + b"]" * 3_500],
    ids=["zero", "half", "huge", "deep"],
)
def test_a_manifest_that_sql_cannot_read_is_parked_and_stops_no_other_document(database: str, unknown: bytes) -> None:
    manifest = b'{"size":10,"piece_bytes":5,"pieces":"%s","digest":"%s","x":%s}' % (b"a" * 64, b"b" * 64, unknown)
    with psycopg.connect(database) as connection:
        connection.execute("SET max_stack_depth = '100kB'")
        insert_waiting(connection, "1.77001", 1, 2)
        set_attributes(connection, 1, {"pieces": "1.77001.1.1.5.7"}, manifest)
        assert receive(connection, 9) == [2]
        parked = connection.execute("SELECT bref, left(parked, 9) FROM tb_0030_done").fetchall()
    assert parked == [(1, "SEMQ-1116")]


def test_a_document_with_wide_headers_is_received_at_once(database: str) -> None:
    wide: dict[str, Any] = {"list": [None] * 60_000, "map": {f"key {n}": n for n in range(10_000)}, "empty": [[], {}]}
    with psycopg.connect(database) as connection:
        connection.execute("SET statement_timeout = '30s'")
        insert_waiting(connection, "1.77001", 1, 1)
        set_attributes(connection, 1, {"user_headers": encode_fields(wide)})
        assert connection.execute("SELECT headers FROM semq_receive()").fetchall() == [(wide,)]


def test_only_headers_of_documents_that_are_returned_are_read(database: str) -> None:
    with psycopg.connect(database) as other, psycopg.connect(database) as connection:
        insert_waiting(other, "1.77001", 1, 5)
        other.commit()
        assert receive(other, 3) == [1, 2, 3]
        connection.execute("SET track_functions = 'all'")
        assert receive(connection, 1) == [4]
        calls = "SELECT pg_stat_get_xact_function_calls('semq_fields'::regproc)"
        assert connection.execute(calls).fetchone() == (1,)


def test_a_piece_cannot_be_parked(database: str) -> None:
    with psycopg.connect(database) as connection:
        insert_waiting(connection, "1.77001", 1, 1, user="_pieces")
        with pytest.raises(psycopg.errors.NoDataFound):
            connection.execute("SELECT semq_park(1, 'no such document')")


def test_a_read_of_submissions_is_bounded_by_their_headers_and_envelopes_too(database: str) -> None:
    """The node reads up to 500 submissions at once."""
    insert = """
        INSERT INTO tb_0031_submit (target, payload, app_key, save_fwd, ack2, order_key, content_type, content_encoding,
            priority, headers, envelope)
        SELECT '1.56001', 'x', '', 3, 1, '', '', '', 0, jsonb_build_object('a', repeat('x', %s)),
            convert_to(repeat('y', %s), 'UTF8') FROM generate_series(1, %s)"""
    with psycopg.connect(database, cursor_factory=psycopg.RawCursor) as connection:
        with psycopg.ClientCursor(connection) as cursor:
            cursor.execute(insert, [100_000, 100_000, 200])
            cursor.execute(insert, [300_000, 0, 1])
        rows = connection.execute(QUERY["SubmittedRows"], [300, [], 1 << 62, 200_000]).fetchall()
        assert len(rows) == 84  # 16 MiB
        connection.execute("DELETE FROM tb_0031_submit WHERE length(headers::text) < 200000")
        ((*_,),) = rows = connection.execute(QUERY["SubmittedRows"], [300, [], 1 << 62, 200_000]).fetchall()
        assert rows[0][9] is None  # its headers are too long to be read


def test_no_temporary_table_replaces_a_table_of_the_node(database: str) -> None:
    """Functions with the owner's rights search the caller's temporary tables last."""
    with psycopg.connect(database) as connection:
        functions = connection.execute("SELECT proname, array_to_string(proconfig, '') FROM pg_proc WHERE prosecdef")
        paths: dict[str, str] = dict(functions.fetchall())
        assert "semq_receive" in paths
        assert [name for name, path in paths.items() if not path.endswith(", pg_temp")] == []


def test_each_query_and_rare_change_has_the_statement_of_its_name() -> None:
    assert {kind.__name__ for kind in (*_QUERIES, *_RARE)} <= STATEMENTS.keys()
