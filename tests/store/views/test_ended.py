"""Ended documents are found in the ledger of any day, counted, and each page reads a bounded number of lines."""

from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, event, text

from bench.http.large_tables import fill
from semq.store.figures import count_lines
from semq.store.rows import Event, Side
from semq.store.views import ended
from semq.store.views.ended import DAY_MS, count_ended, ended_page
from semq.store.views.pages import search_page
from semq.store.views.selection import MessageFilter, Search
from tests.store.ledger_plans import scans_of
from tests.store.test_figures import NOON, connection, write
from tests.store.views.test_pages import all_pages, scanned

__all__ = ["connection"]
NOON_MS = round(NOON.timestamp() * 1000)
DAY: dict[str, Any] = {"since_ms": NOON_MS - DAY_MS // 2, "until_ms": NOON_MS + DAY_MS // 2}
KEY = text("UPDATE semq_ledger SET app_type = 'order', app_key = 'K' || number WHERE event IN (1, 20)")


@pytest.fixture
def ledger(connection: Connection) -> Connection:
    """Ten documents to 56001 and 56002 of yesterday, of which two were refused, and others."""
    for number in range(10):
        target = f"1.{56001 + number % 2}"
        write(connection, number, Event.ACCEPTED, number, target=target)
        refused = number in (3, 8)
        write(
            connection, number, Event.REJECTED if refused else Event.DELIVERED, 100 + number, target=target,
            detail="SEMQ-1202 no room" if refused else "",
        )  # fmt: skip
    write(connection, 20, Event.REFUSED, 200, detail="SEMQ-1204 quota")  # a submission
    write(connection, 1, Event.REFUSED, 50)  # an attempt
    write(connection, 30, Event.RECEIVED, 1, Side.RECEIVER, "1.10008")
    write(connection, 30, Event.DONE, 300, Side.RECEIVER, "1.10008")
    write(connection, 40, Event.ACCEPTED, 86_400 * 2)  # not ended
    connection.execute(KEY)
    connection.commit()
    count_lines(connection)
    return connection


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (MessageFilter(ended=True), [*range(10), 20, 30]),
        (MessageFilter(ended=True, state="rejected"), [3, 8, 20]),
        (MessageFilter(ended=True, state="REJECTED", partner="56001", type="order", **DAY), [8]),
        (MessageFilter(ended=True, state="DELIVERED", partner="56002"), [1, 5, 7, 9]),
        (MessageFilter(ended=True, code="SEMQ-1202"), [3, 8]),
        (MessageFilter(ended=True, key="K1"), [0, 5, 6, 7, 8, 9]),
        (MessageFilter(ended=True, side="inbound", partner="10008"), [30]),
        (MessageFilter(ended=True, side="submitted"), [20]),
        (MessageFilter(ended=True, since_ms=NOON_MS + 105_000, until_ms=NOON_MS + 108_000), [5, 6, 7]),
        (MessageFilter(ended=True, state="NEW"), []),
    ],
)
def test_pages_have_each_ended_document_once_in_the_order_of_its_end(
    ledger: Connection,
    monkeypatch: pytest.MonkeyPatch,
    wanted: MessageFilter,
    numbers: list[int],
    limit: int,
    order: Any,
) -> None:
    monkeypatch.setattr(ended, "LINES_MAX", 4)
    monkeypatch.setattr(ended, "JOINED_MAX", 2)
    values = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    rows, looked_at = all_pages(ledger, Search(**values, limit=limit, order=order))
    found = [int(row["lk0"].rpartition(".")[2]) for row in rows]
    assert found == (sorted(numbers, reverse=order == "newest"))
    assert max(looked_at) <= 4
    counted = count_ended(ledger, wanted)
    assert (counted["matches"], counted["is_complete"]) == (len(numbers), True)


def test_a_row_has_the_facts_of_both_lines(ledger: Connection) -> None:
    [row] = search_page(ledger, Search(ended=True, state="REJECTED", partner="56002"))["rows"]
    assert row | {"id": 0} == row | {
        "id": 0, "side": "outbound", "at": NOON_MS + 103_000, "began_at": NOON_MS + 3000, "outcome": "REJECTED",
        "source": "1.10008", "target": "1.56002", "size": 1, "reason": ["SEMQ-1202", "no room"],
    }  # fmt: skip
    assert row["app_key"].startswith("/order//K")


def test_whole_days_are_counted_by_the_figures(ledger: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ended, "COUNTED_MAX", 0)
    days = MessageFilter(ended=True, **DAY)
    assert count_ended(ledger, days)["by_outcome"] == {"DELIVERED": 8, "REJECTED": 3, "DONE": 1}
    assert count_ended(ledger, replace(days, partner="56001", state="REJECTED"))["by_outcome"] == {"REJECTED": 2}
    assert count_ended(ledger, replace(days, side="inbound"))["matches"] == 1
    assert not count_ended(ledger, days, is_counted=False)["is_complete"]
    assert count_ended(ledger, replace(days, since_ms=DAY["until_ms"], until_ms=None))["matches"] == 0


def test_more_lines_than_a_count_reads_are_said_to_be_incomplete(
    ledger: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "COUNTED_JOINED_MAX", 4)
    assert count_ended(ledger, MessageFilter(ended=True, type="order")) == {
        "matches": 2, "by_outcome": {"DONE": 1, "DELIVERED": 1}, "is_complete": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "most"),
    [(Search(ended=True), 600), (Search(ended=True, state="LOST"), 10), (Search(ended=True, type="none"), 1500)],
)
def test_a_page_of_a_long_ledger_reads_its_window_by_an_index(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, wanted: Search, most: int
) -> None:
    monkeypatch.setattr(ended, "LINES_MAX", 500)
    monkeypatch.setattr(ended, "JOINED_MAX", 300)
    connection.execute(
        text(
            "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, digest, size, detail)"
            " SELECT n, now() - make_interval(secs => 30000 - n), 1, (ARRAY[1, 2, 5])[1 + n % 3],"
            " '1.10008.1.1.a.' || n / 3, '1.56001', 1, '', '', 1, '' FROM generate_series(1, 30000) n"
        )
    )
    connection.execute(text("ANALYZE semq_ledger"))
    statements: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    ended_page(connection, wanted)
    event.remove(connection, "before_cursor_execute", note)
    for statement, parameters in statements:
        [[plan]] = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        assert scanned(plan[0]["Plan"]) <= 2 * most, plan


def test_a_page_without_a_period_plans_the_partitions_of_its_lines(
    database: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ended, "LINES_MAX", 100)
    fill(database, 1, 3000, days=30)
    window, page = scans_of(connection, lambda: ended_page(connection, Search(ended=True, state="DELIVERED", limit=10)))
    assert window >= 30  # each partition once
    assert page < 90  # the window, the first lines near it and, of documents that took longer, in older partitions


@pytest.mark.parametrize("wanted", [MessageFilter(ended=True, key="K-old"), MessageFilter(ended=True, type="contract")])
def test_type_and_key_of_a_document_that_took_long_are_found(ledger: Connection, wanted: MessageFilter) -> None:
    month = 30 * 86_400
    write(ledger, 50, Event.ACCEPTED, -month)
    write(ledger, 50, Event.DELIVERED, 400)
    ledger.execute(text("UPDATE semq_ledger SET app_type = 'contract', app_key = 'K-old' WHERE lk0 LIKE '%.50'"))
    ledger.execute(text("UPDATE semq_ledger SET app_type = '', app_key = '' WHERE lk0 LIKE '%.50' AND event = 5"))
    ledger.commit()
    values = {name: getattr(wanted, name) for name in wanted.__struct_fields__}
    (row,) = ended_page(ledger, Search(**values))["rows"]
    assert (row["app_key"], row["began_at"]) == ("/contract//K-old", NOON_MS - month * 1000)
    assert count_ended(ledger, wanted)["matches"] == 1
