"""Figures over time are read by the primary key, and have the kinds of the roles."""

from collections import Counter

from sqlalchemy import Connection, text

from semq.store.figures import DAY, MINUTE, count_lines
from semq.store.rows import Event, Side
from semq.store.views.figures import counted_until, over_time, pairs
from tests.store.test_figures import NOON, connection, write

__all__ = ["connection"]
NOON_MS = round(NOON.timestamp() * 1000)


def test_figures_of_a_partner_are_those_of_documents_to_it_and_received_from_it(connection: Connection) -> None:
    assert counted_until(connection) is None
    connection.rollback()
    write(connection, 1, Event.ACCEPTED)
    write(connection, 1, Event.REJECTED, 60)
    write(connection, 2, Event.RECEIVED, side=Side.RECEIVER, target="1.77001")
    count_lines(connection)
    assert counted_until(connection) == NOON_MS + 60_000
    kinds = [(row.at - NOON_MS, row.kind, row.documents) for row in over_time(connection, MINUTE, NOON_MS, None)]
    assert sorted(kinds) == [(0, "accepted", 1), (0, "received", 1), (60_000, "failed", 1)]
    assert {row.kind for row in over_time(connection, MINUTE, NOON_MS, "1.56001")} == {"accepted", "failed"}
    assert {row.kind for row in over_time(connection, DAY, 0, "1.10008")} == {"received"}
    assert over_time(connection, MINUTE, NOON_MS, "1.77001") == []  # received here, not there
    assert over_time(connection, MINUTE, NOON_MS + 120_000, None) == []
    day_ms = NOON_MS - 12 * 3_600_000
    assert pairs(connection, day_ms) == {
        ("1.10008", "1.56001"): {"accepted": 1, "failed": 1},
        ("1.10008", "1.77001"): {"received": 1},
    }


def test_every_end_without_delivery_counts_as_failed_except_a_cancellation(connection: Connection) -> None:
    ends = (Event.REJECTED, Event.LOST, Event.UNKNOWN, Event.DROPPED, Event.CANCELLED)
    for number, end in enumerate(ends, 1):
        write(connection, number, end)
    count_lines(connection)
    documents: Counter[str] = Counter()
    for row in over_time(connection, MINUTE, NOON_MS, None):
        documents[row.kind] += row.documents
    assert documents == {"failed": 4, "cancelled": 1}


def test_a_page_of_many_partners_reads_the_figures_of_one_by_an_index(connection: Connection) -> None:
    connection.execute(
        text(
            "INSERT INTO semq_figure SELECT 60, '', CASE n % 50 WHEN 0 THEN '' ELSE '1.' || n % 50 END,"
            " now() - n / 50 * interval '1 hour', 1, 1, -1, 1 FROM generate_series(0, 19999) n"
        )
    )
    connection.execute(text("ANALYZE semq_figure"))
    for target in ("", "1.7"):
        query = f"SELECT * FROM semq_figure WHERE minutes = 60 AND source = '' AND target = '{target}'"
        plan = " ".join(connection.execute(text(f"EXPLAIN {query} AND at >= now() - interval '7 days'")).scalars())
        assert "semq_figure_pkey" in plan
