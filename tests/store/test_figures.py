"""Lines of the ledger are counted once, in all periods, with the latency of the documents that they end."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Connection, text

from bench.http.large_tables import fill
from semq.store import figures
from semq.store.figures import BOUNDS_MS, DAY, HOUR, MINUTE, NO_LATENCY, count_lines
from semq.store.postgres.migration import engine_of
from semq.store.rows import Event, Side
from semq.umx_t.pieces import PIECES_USER
from tests.store.ledger_plans import scans_of

NOON = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(hours=12)
LINE = text(
    "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, digest, size, detail)"
    " SELECT coalesce(max(number), 0) + 1, :at, :side, :event, :lk0, :target, 1, '', '', 1, :detail FROM semq_ledger"
)


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    engine = engine_of(database)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def write(
    connection: Connection, number: int, event: Event, seconds: float = 0, side: Side = Side.SENDER,
    target: str = "1.56001", detail: str = "",
) -> None:  # fmt: skip
    """Write a line about a document of 10008, so many seconds after noon of yesterday."""
    values = {"at": NOON + timedelta(seconds=seconds), "side": side, "event": event, "lk0": f"1.10008.1.1.a.{number}"}
    connection.execute(LINE, values | {"target": target, "detail": detail})
    connection.commit()


def counted(connection: Connection, minutes: int, source: str = "", target: str = "") -> dict[tuple[Event, int], int]:
    """Return the documents of all times by event and bucket."""
    query = text(
        "SELECT event, bucket, sum(documents) FROM semq_figure"
        " WHERE minutes = :minutes AND source = :source AND target = :target GROUP BY 1, 2"
    )
    rows = connection.execute(query, {"minutes": minutes, "source": source, "target": target}).all()
    connection.rollback()
    return {(Event(event), bucket): int(documents) for event, bucket, documents in rows}


def test_each_line_is_counted_once_by_minute_hour_and_day_for_all_for_each_institution_and_by_pair(
    connection: Connection,
) -> None:
    assert count_lines(connection) == 0
    for number in range(3):
        write(connection, number, Event.ACCEPTED, 50 * number, target="1.56001/desk" if number else "1.88001")
    write(connection, 0, Event.SENT, 200)
    assert count_lines(connection) == 3
    assert count_lines(connection) == 0
    for minutes in (MINUTE, HOUR, DAY):
        assert counted(connection, minutes) == {(Event.ACCEPTED, NO_LATENCY): 3}
        assert counted(connection, minutes, target="1.56001") == {(Event.ACCEPTED, NO_LATENCY): 2}
        assert counted(connection, minutes, source="1.10008") == {(Event.ACCEPTED, NO_LATENCY): 3}
        pair = counted(connection, minutes, "1.10008", "1.88001")
        assert pair == ({(Event.ACCEPTED, NO_LATENCY): 1} if minutes == DAY else {})
    query = "SELECT at FROM semq_figure WHERE minutes = 1 AND source = '' AND target = '' ORDER BY 1"
    periods = connection.execute(text(query))
    assert [at for (at,) in periods] == [NOON, NOON + timedelta(minutes=1)]


def test_a_count_that_is_broken_off_counts_nothing_and_the_next_one_counts_all(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "COUNT", text(f"{figures.COUNT.text}, 1 / (n.lines - 2)"))
    for number in range(2):
        write(connection, number, Event.ACCEPTED)
    with pytest.raises(Exception, match="division by zero"):
        count_lines(connection)
    assert counted(connection, DAY) == {}
    monkeypatch.undo()
    assert count_lines(connection) == 2
    write(connection, 2, Event.ACCEPTED, -7200)  # the clock was put back
    assert count_lines(connection) == 1
    assert counted(connection, DAY) == {(Event.ACCEPTED, NO_LATENCY): 3}


@pytest.mark.parametrize(
    ("seconds", "bucket"), [(0.01, 0), (0.011, 1), (0.2, 4), (-0.5, 0), (86_300, 16), (86_500, len(BOUNDS_MS))]
)
def test_the_latency_of_a_document_is_counted_by_its_upper_bound(
    connection: Connection, seconds: float, bucket: int
) -> None:
    for number, (begin, end, side) in enumerate(
        (
            (Event.ACCEPTED, Event.DELIVERED, Side.SENDER),
            (Event.RECEIVED, Event.DONE, Side.RECEIVER),
            (Event.STORED, Event.RELEASED, Side.HUB),
        )
    ):
        write(connection, number, begin, side=side)
        write(connection, number, end, seconds, side=side)
    count_lines(connection)
    ends = {event: found for (event, found), _ in counted(connection, HOUR).items() if found != NO_LATENCY}
    assert ends == {Event.DELIVERED: bucket, Event.DONE: bucket, Event.RELEASED: bucket}


def test_pieces_markers_and_refused_attempts_are_no_documents(connection: Connection) -> None:
    write(connection, 1, Event.ACCEPTED, target=f"1.56001/{PIECES_USER}")
    write(connection, 2, Event.STORED, side=Side.HUB, detail="sent; void marker")
    write(connection, 3, Event.ACCEPTED)
    write(connection, 3, Event.REFUSED, 1)  # the hub refused an attempt
    write(connection, 4, Event.REFUSED, 1)  # the node refused a submission
    assert count_lines(connection) == 5
    assert counted(connection, DAY) == {(Event.ACCEPTED, NO_LATENCY): 1, (Event.REFUSED, NO_LATENCY): 1}


def test_a_count_reads_only_new_lines_by_the_index_and_partitions_of_the_time(connection: Connection) -> None:
    for number in range(5):
        write(connection, number, Event.ACCEPTED)
    count_lines(connection)
    connection.execute(text("SET enable_seqscan = off"))
    values = {"bounds": [float(bound) for bound in BOUNDS_MS], **dict.fromkeys(figures.LIMITS, NOON)}
    plan = "\n".join(connection.execute(text(f"EXPLAIN {figures.COUNT.text}"), values).scalars())
    assert "semq_ledger_other_number_idx" in plan


def test_a_count_plans_the_partitions_of_the_last_days_only(database: str, connection: Connection) -> None:
    fill(database, 1, 3000, days=30)
    (first,) = scans_of(connection, lambda: count_lines(connection))
    assert first > 60  # three tables of 30 days
    (next_,) = scans_of(connection, lambda: count_lines(connection))
    assert next_ < 30
