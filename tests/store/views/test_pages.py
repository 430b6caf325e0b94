"""Pages of messages are complete and without repetitions for any filter."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, event, text

from bench.http.large_tables import fill
from semq.answers.messages import MessageRow
from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres.migration import engine_of
from semq.store.views import pages
from semq.store.views.pages import search_page
from semq.store.views.selection import Search
from tests.conftest import new_database_of

WAITING = 300


@pytest.fixture(scope="module")
def engine(postgres: EmbeddedPostgres) -> Iterator[Engine]:
    with new_database_of(postgres, template=DATABASE) as url:
        fill(url, WAITING, 40)
        yield engine_of(url)


@pytest.fixture
def connection(engine: Engine) -> Iterator[Connection]:
    """Yield a connection to the filled tables, whose changes are rolled back."""
    with engine.connect() as connection:
        yield connection
        connection.rollback()


def all_pages(connection: Connection, wanted: Search) -> tuple[list[MessageRow], list[int]]:
    """Return all rows of all pages, and the number of rows read for each page."""
    rows, looked_at = [], []
    place: dict[str, Any] = {}
    for _ in range(WAITING):
        page = search_page(connection, replace(wanted, **place))
        rows += page["rows"]
        looked_at.append(page["looked_at"])
        if page["next"] is None:
            return rows, looked_at
        place = page["next"]
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        (Search(), WAITING),
        (Search(partner="50003"), WAITING // 20),
        (Search(state="SS_SENT"), WAITING // 3),
        (Search(state="delivered"), 0),
        (Search(type="invoice", state="SS_INIT"), 100),
        (Search(key="K00000012"), 10),
        (Search(mark="held"), 1),
        (Search(side="inbound"), 0),
    ],
)
def test_pages_have_every_row_once_and_each_page_reads_a_bounded_number_of_rows(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, wanted: Search, count: int, order: Any
) -> None:
    monkeypatch.setattr(pages, "COMPARED_MAX", 37)
    connection.execute(text("UPDATE tb_0031 SET held = true WHERE app_key = 'K000000007'"))
    rows, looked_at = all_pages(connection, replace(wanted, limit=13, order=order))
    numbers = [row["id"] for row in rows]
    assert len(numbers) == count == len(set(numbers))
    assert numbers == sorted(numbers, reverse=order == "newest")
    assert max(looked_at) <= 37


@pytest.mark.parametrize("direction", [1, -1])  # -1: the clock was put back repeatedly
def test_both_queues_are_merged_by_time_and_no_row_is_left_out(connection: Connection, direction: int) -> None:
    connection.execute(
        text(
            "INSERT INTO tb_0030 (bref, lk0, store, inc, src_object_id, target, save_fwd, ack2, status, received_at)"
            " SELECT n, '1.56001.1.1.tb_0031.' || n, '1.56001.1.1', 1, n, '1.10008', 3, true, 410,"
            f" now() - make_interval(secs => 60 - n * {direction}) FROM generate_series(1, 50) AS n"
        )
    )
    rows, _ = all_pages(connection, Search(limit=7))
    assert len({(row["side"], row["id"]) for row in rows}) == len(rows) == WAITING + 50
    assert [row["name"] for row in all_pages(connection, Search(partner="56001"))[0]] == [
        row["name"] for row in rows if row["side"] == "inbound"
    ]


def scanned(node: dict[str, Any]) -> int:
    """Return how many rows the scans in a plan have read."""
    rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0) if "Scan" in node["Node Type"] else 0
    return int(rows * node["Actual Loops"]) + sum(map(scanned, node.get("Plans", ())))


@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("wanted", [Search(key="none"), Search(partner="77777"), Search(state="REJECTED")])
def test_a_page_reads_no_more_submissions_than_it_compares(
    connection: Connection, monkeypatch: pytest.MonkeyPatch, wanted: Search, order: Any
) -> None:
    monkeypatch.setattr(pages, "COMPARED_MAX", 5000)
    connection.execute(
        text(
            "INSERT INTO tb_0031_submit (target, payload, app_key, save_fwd, ack2)"
            " SELECT '50001', 'x', 'trade/order//K' || n, 3, 1 FROM generate_series(1, 30000) AS n"
        )
    )
    connection.execute(text("ANALYZE tb_0031_submit"))
    statements: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        statements.append((statement, parameters))

    event.listen(connection, "before_cursor_execute", note)
    page = search_page(connection, replace(wanted, side="submitted", order=order))
    event.remove(connection, "before_cursor_execute", note)
    assert page["looked_at"] == 5000
    for statement, parameters in statements:
        [[plan]] = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
        assert scanned(plan[0]["Plan"]) <= 11_000
