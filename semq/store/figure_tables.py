"""Tables of figures over time: documents by period, institutions and event, counted from the ledger (``figures``)."""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, DateTime, Index, SmallInteger, Table, Text, text

from semq.store.rows import Event
from semq.store.tables import COUNTERS, STORAGE, col, metadata, moment, semq_ledger

# Lines that end a document otherwise than it should: they are few, so their index costs little and finds them at once.
FAILURES = (
    Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED, Event.REFUSED, Event.PARKED,
)  # fmt: skip
COUNTED = tuple(
    sorted(
        {
            Event.ACCEPTED, Event.FORWARDED, Event.STORED, Event.DELIVERED, Event.RELEASED, Event.RECEIVED, Event.DONE,
            *FAILURES,
        }
    )
)  # fmt: skip


def among(events: tuple[Event, ...]) -> str:
    """Return the condition of a partial index, for lines with these events."""
    return f"event IN ({', '.join(f'{event:d}' for event in events)})"


Index("semq_ledger_counted", semq_ledger.c.number, postgresql_where=text(among(COUNTED)))
Index("semq_ledger_failures", semq_ledger.c.number, postgresql_where=text(among(FAILURES)))

semq_figure = Table(
    "semq_figure",
    metadata,
    col("minutes", SmallInteger, key=True),  # length of the period: 1, 60 or 1440
    col("source", Text, key=True),  # sender; empty: all
    col("target", Text, key=True),  # receiver; empty: all
    col("at", DateTime(timezone=True), key=True),  # beginning of the period
    col("side", SmallInteger, key=True),
    col("event", SmallInteger, key=True),
    col("bucket", SmallInteger, key=True),  # of the latency (``figures.BOUNDS_MS``); -1: no latency
    col("documents", BigInteger),
    Index("semq_figure_at", "minutes", "at"),
)
semq_counted = Table(
    "semq_counted",
    metadata,
    col("single", Boolean, "true", key=True),
    col("number", BigInteger),  # of the last counted line of the ledger
    moment("at"),  # its time
    CheckConstraint("single", name="one_row"),
)
STORAGE |= {"semq_figure": COUNTERS, "semq_counted": COUNTERS}
