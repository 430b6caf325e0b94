"""Figures over time as rows (``semq.store.figures`` counts them). Read-only."""

from typing import NamedTuple

from sqlalchemy import Connection, and_, func, or_, select
from sqlalchemy.sql.elements import ColumnElement

from semq.store.figure_tables import semq_counted, semq_figure
from semq.store.figures import PAIRS_BY
from semq.store.rows import Event, Side

C = semq_figure.c
PAIRS_MAX = 20_000  # pairs with the most documents
# Kind of documents | role in which the node wrote the line, and its events
KINDS: dict[str, tuple[Side, tuple[Event, ...]]] = {
    "accepted": (Side.SENDER, (Event.ACCEPTED,)),
    "delivered": (Side.SENDER, (Event.DELIVERED,)),
    "failed": (Side.SENDER, (Event.REJECTED, Event.LOST, Event.UNKNOWN, Event.DROPPED, Event.REFUSED)),
    "cancelled": (Side.SENDER, (Event.CANCELLED,)),
    "forwarded": (Side.HUB, (Event.FORWARDED,)),
    "stored": (Side.HUB, (Event.STORED,)),
    "released": (Side.HUB, (Event.RELEASED,)),
    "refused": (Side.HUB, (Event.REFUSED, Event.DROPPED, Event.PARKED)),
    "received": (Side.RECEIVER, (Event.RECEIVED,)),
    "processed": (Side.RECEIVER, (Event.DONE,)),
    "parked": (Side.RECEIVER, (Event.PARKED,)),
}
KIND_OF: dict[tuple[int, int], str] = {
    (side, event): kind for kind, (side, events) in KINDS.items() for event in events
}


class Counted(NamedTuple):
    """Documents of one kind in one period."""

    at: int  #: beginning of the period, in milliseconds since 1970 UTC
    side: int
    event: int
    bucket: int
    documents: int

    @property
    def kind(self) -> str:
        return KIND_OF.get((self.side, self.event), "")


def counted_until(connection: Connection) -> int | None:
    """Return the time of the newest counted line; None before the first."""
    query = select(func.extract("epoch", semq_counted.c.at) * 1000).where(semq_counted.c.number >= 0)
    at = connection.execute(query).scalar()
    return None if at is None else round(at)


def over_time(connection: Connection, minutes: int, since_ms: int, partner: str | None) -> list[Counted]:
    """Return the figures of periods of this length since a time, of all documents or those to and from a partner.

    At a hub, the documents for the institution.
    """
    whose: ColumnElement[bool] = and_(C.source == "", C.target == "")
    if partner is not None:
        to_it = (C.source == "") & (C.target == partner) & (C.side != Side.RECEIVER)
        from_it = (C.source == partner) & (C.target == "") & (C.side == Side.RECEIVER)
        whose = or_(to_it, from_it)
    at = func.extract("epoch", C.at) * 1000
    query = select(at, C.side, C.event, C.bucket, C.documents).where(
        C.minutes == minutes, C.at >= func.to_timestamp(since_ms / 1000), whose
    )
    return [Counted(int(row[0]), *row[1:]) for row in connection.execute(query)]


def pairs(connection: Connection, day_ms: int) -> dict[tuple[str, str], dict[str, int]]:
    """Return the documents of one day (UTC) by sender and receiver and by kind, the pairs with the most first."""
    documents = func.sum(C.documents).label("documents")
    query = (
        select(C.source, C.target, C.side, C.event, documents)
        .where(C.minutes == PAIRS_BY, C.at == func.to_timestamp(day_ms / 1000), C.source != "", C.target != "")
        .group_by(C.source, C.target, C.side, C.event)
        .order_by(documents.desc())
        .limit(PAIRS_MAX)
    )
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in connection.execute(query):
        documents_of_pair = found.setdefault((row.source, row.target), {})
        kind = KIND_OF.get((row.side, row.event), "")
        documents_of_pair[kind] = documents_of_pair.get(kind, 0) + int(row.documents)
    return found
