"""Names of messages: every kind of name, messages of different origins, and a cost independent of the tables' size."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.migration import engine_of
from semq.store.rows import Event, Side
from semq.store.views import names, submissions
from semq.store.views.names import find_in_ledger, find_messages
from semq.umx_t.pieces import AFTER_PIECES_MS
from semq.umx_t.short_name import short_name
from semq.umx_t.status import Arrival, Direction
from tests.conftest import new_database_of

NUMBER = (1 << 40) + 7
OTHERS = 20_000  # rows of other messages
READ_MAX = 200  # rows that Postgres may touch for one name


def lk0(origin: int, number: int = NUMBER) -> str:
    return f"1.{10000 + origin}.1.1.{origin + 1:x}.{number}"


@pytest.fixture(scope="module")
def engine(postgres: EmbeddedPostgres) -> Iterator[Engine]:
    with new_database_of(postgres, template=DATABASE) as url:
        engine = engine_of(url)
        fill(engine)
        yield engine


@pytest.fixture
def tables(engine: Engine) -> Iterator[Connection]:
    """Yield a connection to the filled tables, whose changes are rolled back."""
    with engine.connect() as connection, connection.begin() as transaction:
        yield connection
        transaction.rollback()


def fill(engine: Engine) -> None:
    """Write the rows of a node with many messages; five origins have a message with ``NUMBER``."""
    line = (
        "INSERT INTO semq_ledger SELECT n, now(), :side, :event, :front || n, '1.2', 1, '', '', '', '', 'k' || n, '',"
        " 0, '' FROM generate_series(:first, :last) n"
    )
    with engine.begin() as connection:
        others = {"first": NUMBER + 1, "last": NUMBER + OTHERS, "front": lk0(0, 0)[:-1]}
        connection.execute(text(line), {**others, "side": Side.HUB, "event": Event.STORED})
        connection.execute(text(line), {**others, "side": Side.HUB, "event": Event.SENT})
        one = {"first": NUMBER, "last": NUMBER}
        events = [(Side.SENDER, Event.ACCEPTED), (Side.RECEIVER, Event.RECEIVED)]
        events += [(Side.HUB, kind) for kind in (Event.STORED, Event.FORWARDED, Event.REFUSED)]
        for origin, (side, kind) in enumerate(events):
            front = {"front": lk0(origin, 0)[:-1]}
            connection.execute(text(line), {**one, **front, "side": side, "event": kind})
        connection.execute(
            text(
                "INSERT INTO tb_0030"
                " (bref, lk0, store, inc, src_object_id, sid, target, save_fwd, ack2, status, received_at, app_key)"
                " SELECT n, :front || n, '1.10000.1.1', 1, n, n, '1.2', 3, true, :received, now(), 'k' || n"
                " FROM generate_series(:first, :last) n"
            ),
            {**others, "first": NUMBER, "received": int(Arrival.RECV)},
        )
        connection.execute(
            text(
                "INSERT INTO tb_0031 (object_id, direction, lk0, inc, dest, save_fwd, ack2, accepted_at, app_key)"
                " SELECT n + 1000000, :relayed, :front || n, 1, '1.2', 3, true, now(), 'h' || n"
                " FROM generate_series(:first, :last) n"
            ),
            {**others, "front": lk0(2, 0)[:-1], "first": NUMBER, "relayed": int(Direction.RELAYED)},
        )
        connection.execute(
            text(
                "INSERT INTO tb_0031_submit (target, payload, app_key, reason_code, reason_text, lk0)"
                " SELECT '56001', '', 'a/b/c/s/' || n, CASE WHEN n % 2 = 0 THEN 'SEMQ-1201' END,"
                "  CASE WHEN n % 2 = 0 THEN 'no' END, CASE WHEN n % 2 = 0 THEN :front || n END"
                " FROM generate_series(1, :others) n"
            ),
            {"others": OTHERS, "front": lk0(9, 0)[:-1]},
        )
        connection.execute(text("ANALYZE"))


def rows_read(connection: Connection, search: Any) -> float:
    """Return how many rows Postgres reads for a search."""
    statements: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    search()
    event.remove(connection, "before_cursor_execute", note)
    rows = 0.0
    for statement, parameters in statements:
        cursor = connection.connection.cursor()
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        [(plan,)] = cursor.fetchall()
        rows += sum(rows_of_scans(plan[0]["Plan"]))
    return rows


def rows_of_scans(plan: dict[str, Any]) -> Iterator[float]:
    if "Scan" in plan["Node Type"]:
        rows = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        yield rows * plan["Actual Loops"]
    for below in plan.get("Plans", ()):
        yield from rows_of_scans(below)


def test_the_message_of_each_origin_is_found_by_its_short_name(tables: Connection) -> None:
    for origin in range(5):
        name = short_name(lk0(origin))
        assert find_in_ledger(tables, name) == find_in_ledger(tables, name.lower()) == [lk0(origin)]
    assert find_in_ledger(tables, short_name(lk0(5))) == []
    assert find_in_ledger(tables, short_name(lk0(0))[:-1] + "_") == []


def test_rows_are_found_by_every_name(tables: Connection) -> None:
    for name in (short_name(lk0(0)), lk0(0)):
        [row] = find_messages(tables, name)
        assert (row["side"], row["lk0"], row["name"]) == ("inbound", lk0(0), short_name(lk0(0)))
    for name in (short_name(lk0(2)), lk0(2), str(NUMBER + 1000000)):
        [row] = find_messages(tables, name)
        assert (row["side"], row["lk0"]) == ("outbound", lk0(2))


def test_a_row_is_found_although_its_ledger_lines_were_deleted(tables: Connection) -> None:
    tables.execute(text("DELETE FROM semq_ledger"))
    [row] = find_messages(tables, short_name(lk0(0)))
    assert row["lk0"] == lk0(0)


NAMES = (
    short_name(lk0(1)),
    short_name(lk0(2)),
    lk0(0),
    lk0(2),
    f"k{NUMBER}",
    f"h{NUMBER + 5}",
    "s/40",
    "a/b/c/s/41",
    "sql-41",
    "sql-40",
    str(NUMBER + 1000000),
    lk0(9, 40),
)


def test_the_cost_does_not_grow_with_the_tables(tables: Connection) -> None:
    for name in NAMES:
        assert (name, find_messages(tables, name) or find_in_ledger(tables, name)) != (name, [])
        for find in (find_in_ledger, find_messages):
            cost = rows_read(tables, partial(find, tables, name))
            assert cost <= READ_MAX, (name, find)


def test_rows_that_may_be_older_than_the_ledger_are_searched_up_to_a_bound(
    tables: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "OLDEST_MAX", 100)
    assert rows_read(tables, lambda: find_messages(tables, "nothing has this key")) <= 2 * 2 * 100 + READ_MAX


def test_a_key_whose_ledger_lines_were_deleted_is_searched_among_the_oldest_rows(
    tables: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "OLDEST_MAX", 10)
    tables.execute(text("DELETE FROM semq_ledger"))
    [row] = find_messages(tables, f"k{NUMBER + 9}")
    assert row["lk0"] == lk0(0, NUMBER + 9)
    assert find_messages(tables, f"k{NUMBER + 10}") == []


def test_a_locator_is_no_key(tables: Connection) -> None:
    tables.execute(text("UPDATE tb_0030 SET app_key = :name WHERE bref = :number"), {"name": lk0(7), "number": NUMBER})
    assert find_messages(tables, lk0(7)) == []


def test_a_submission_is_found_by_each_of_its_names(tables: Connection) -> None:
    for name in ("s/40", "a/b/c/s/40", "sql-40", lk0(9, 40)):
        [row] = find_messages(tables, name)
        assert (row["submission"], row["state"], row["lk0"]) == (40, "REFUSED", lk0(9, 40))
    for name in ("s/41", "a/b/c/s/41", "sql-41"):
        [row] = find_messages(tables, name)
        assert (row["submission"], row["state"], row["lk0"]) == (41, "SUBMITTED", "sql-41")
    assert find_messages(tables, "a/b/x/s/41") == find_messages(tables, "sql-x") == []


def test_a_header_named_as_a_fact_of_a_document_in_pieces_is_not_read(tables: Connection) -> None:
    year_9000 = f"to_timestamp({AFTER_PIECES_MS // 1000})"  # an application can give this time, too
    for not_before in ("NULL", year_9000):
        tables.execute(
            text(f"UPDATE tb_0031_submit SET not_before = {not_before}, headers = :headers WHERE number IN (40, 41)"),
            {"headers": '{"size": "XL", "pieces": "two", "@ExpiresAt": "1000000"}'},
        )
        found = submissions.list_submissions(tables, 2, submissions.C.number < 42)
        assert [(row["submission"], row["size"], "pieces" in row) for row in found] == [(41, 0, False), (40, 0, False)]
        assert [row["expires_at"] for row in found] == [1_000_000] * 2
        tables.execute(text("UPDATE tb_0031_submit SET headers = jsonb_build_object('@ExpiresAt', 'soon')"))
        assert [row["expires_at"] for row in submissions.list_submissions(tables, 1)] == [None]


def test_the_size_of_a_document_in_pieces_may_exceed_an_integer(tables: Connection) -> None:
    facts = {"headers": '{"size": 4294967296, "pieces": 16384}', "lk0": lk0(9, 41)}
    tables.execute(
        text(
            f"UPDATE tb_0031_submit SET not_before = to_timestamp({AFTER_PIECES_MS // 1000}), envelope = 'x',"
            " headers = :headers, lk0 = :lk0 WHERE number = 41"
        ),
        facts,
    )
    [row] = submissions.list_submissions(tables, 10, submissions.IS_IN_PIECES)
    assert (row["size"], row["pieces"]) == (4 << 30, {"count": 16_384, "delivered": 16_384})


def test_old_names_of_a_submission_denote_the_message_that_it_became(tables: Connection) -> None:
    old, new = lk0(9, 40), lk0(0)
    line = "INSERT INTO semq_ledger SELECT 1, now(), 1, 16, :lk0, '1.2', 0, '', 'a', 'b', 'c', 's/40', '', 0, 'no'"
    tables.execute(text(line), {"lk0": old})
    tables.execute(text("INSERT INTO tb_0031_renamed VALUES (:lk0, 40)"), {"lk0": old})
    tables.execute(text("UPDATE tb_0031_submit SET reason_code = NULL, reason_text = NULL WHERE number = 40"))
    for name in (old, short_name(old)):
        [row] = find_messages(tables, name)
        assert (row["submission"], row["state"]) == (40, "SUBMITTED")
    tables.execute(text("DELETE FROM tb_0031_submit WHERE number = 40"))
    tables.execute(text("INSERT INTO tb_0031_taken VALUES (40, :lk0)"), {"lk0": new})
    for name in (old, short_name(old), "sql-40", new):
        [row] = find_messages(tables, name)
        assert (row["side"], row["lk0"]) == ("inbound", new)
        assert find_in_ledger(tables, name) == [new]
    assert submissions.names_before(tables, new) == submissions.names_before(tables, "sql-40") == [old]
