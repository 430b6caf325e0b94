"""Lines of the ledger count in the order in which they were written, also if the clock was set back between them."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from sqlalchemy import Connection, create_engine, text

from semq.store.rows import Event, Side
from semq.store.views.failed import with_errors
from semq.store.views.groups import CONTINUES
from semq.store.views.messages import DETAIL_WORDS, trace
from semq.umx_t.grids import SENDER, SENDER_12, SenderState

LK0, NEXT, LAST = (f"1.10008.1.1.ab.{number}" for number in (1, 2, 3))
NOW = datetime.now(UTC)
LINE = (
    "INSERT INTO semq_ledger (number, at, side, event, lk0, target, att, lk1, app_domain, app_type, app_subtype,"
    " app_key, digest, size, detail) VALUES (%s, %s, %s, %s, %s, '1.2', 1, '', '', '', '', '', '', 5, %s)"
)


@pytest.fixture
def reader(database: str) -> Iterator[Connection]:
    """A connection to a database whose clock goes back a second with each line."""
    lines = (
        (LK0, Event.ACCEPTED, ""),
        (LK0, Event.SENT, ""),
        (LK0, Event.REFUSED, "SEMQ-1206 first"),
        (LK0, Event.REJECTED, "SEMQ-1206 last"),
        (LK0, Event.OPERATOR, f"{CONTINUES}{NEXT}"),
        (LK0, Event.OPERATOR, f"{CONTINUES}{LAST}"),
        (LAST, Event.SENT, ""),
        (LAST, Event.DELIVERED, ""),
    )
    with psycopg.connect(database) as connection:
        for number, (lk0, event, detail) in enumerate(lines, 1):
            connection.execute(LINE, (number, NOW - timedelta(seconds=number), Side.SENDER, event, lk0, detail))
    engine = create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def test_the_last_line_decides_the_state_that_sql_tells(reader: Connection) -> None:
    state = text("SELECT state FROM semq_state(:lk0)")
    assert [reader.execute(state, {"lk0": lk0}).scalar() for lk0 in (LK0, LAST)] == ["REJECTED", "DELIVERED"]
    assert reader.execute(text("SELECT state FROM semq_state_of(:lk0)"), {"lk0": LK0}).scalar() == "DELIVERED"


def test_a_trace_and_the_last_error_follow_the_lines(reader: Connection) -> None:
    events = [line["event"] for line in trace(reader, LK0)]
    assert events == ["ACCEPTED", "SENT", "REFUSED", "REJECTED", "OPERATOR", "OPERATOR"]
    (row,) = with_errors(reader, [{"side": "outbound", "lk0": LK0, "at": 0}])
    assert row["error"] == "SEMQ-1206 last"


def test_every_reason_for_which_a_message_is_sent_again_has_words() -> None:
    reasons = {
        event.name
        for grid in (SENDER, SENDER_12)
        for (state, event), rule in grid.rules().items()
        if rule is not None and rule.after is SenderState.SS_INIT and state is not SenderState.SS_INIT
    }
    assert reasons <= DETAIL_WORDS.keys()
