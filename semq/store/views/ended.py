"""Pages and counts of documents that have ended, from the ledger: by the time of their end, on any day that is kept.

A page reads at most ``LINES_MAX`` lines, by the partial indexes of ``figure_tables``, in the order of their numbers.
Type, key and size are in another line of the document, so a filter by them reads fewer lines.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import TypedDict, TypeVar

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Select, and_, case, cast, func, literal_column, or_, select, text, true, tuple_
from sqlalchemy.dialects.postgresql import INTERVAL
from sqlalchemy.sql.elements import ColumnElement

from semq.answers.messages import MessagePage, MessageRow
from semq.store.figure_tables import COUNTED, FAILURES, among, semq_figure
from semq.store.figures import DAY
from semq.store.rows import MARKER, Event, Side
from semq.store.tables import Columns, TableRow, semq_ledger
from semq.store.views.messages import node_of
from semq.store.views.selection import NUMBER_MAX, MessageFilter, Search
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.short_name import short_name
from semq.umx_t.status import Outcome

LINES_MAX = 20_000  # compared lines of one page
JOINED_MAX = 2_000  # of one page, if each needs the first line of its document
COUNTED_MAX, COUNTED_JOINED_MAX = 40_000, 2_000  # lines of one count
NEAR_DAYS = 7  # from the end of a document back: its first line is searched there first, then in older partitions
DAY_MS = 86_400_000
OF_FIRST = ("app_domain", "app_type", "app_subtype", "app_key", "size")  # facts in the first line of a document
# Role | events that end a document
ENDS: dict[Side, tuple[Event, ...]] = {
    Side.SENDER: (
        Event.DELIVERED, Event.REJECTED, Event.CANCELLED, Event.LOST, Event.UNKNOWN, Event.DROPPED, Event.REFUSED,
    ),
    Side.HUB: (Event.FORWARDED, Event.RELEASED, Event.DROPPED, Event.REFUSED),
    Side.RECEIVER: (Event.DONE, Event.REJECTED, Event.CANCELLED),
}  # fmt: skip
SIDES = {"outbound": (Side.SENDER, Side.HUB), "inbound": (Side.RECEIVER,), "submitted": ()}
L = semq_ledger.c
Conditions = Iterable[ColumnElement[bool]]
AnyFilter = TypeVar("AnyFilter", bound=MessageFilter)


def outcome_of(side: int, event: int) -> str:
    """Return the outcome of a document: a refusal of a submission by its node is REJECTED."""
    is_submission = (side, event) == (Side.SENDER, Event.REFUSED)
    return Outcome.REJECTED.name if is_submission else Event(event).name


def ended_page(connection: Connection, wanted: Search) -> MessagePage:
    """Return ``rows``, ``next`` and ``looked_at``, as ``pages.search_page`` does."""
    first = NUMBER_MAX if wanted.is_descending else 0
    begin = first if wanted.line is None else wanted.line
    most = JOINED_MAX if _is_joined(wanted) else LINES_MAX
    extent = None if wanted.since_ms is not None else _extent(connection, _window(wanted, begin, most))
    within = wanted if extent is None else _within(wanted, extent)  # a period keeps partitions out by itself
    query = _documents(_window(within, begin, most), within, with_first=True)
    number = query.selected_columns.number
    query = query.order_by(number.desc() if wanted.is_descending else number).limit(wanted.limit)
    found = connection.execute(query).all()
    rows = [_facts(row) for row in found]
    if len(found) == wanted.limit:  # the other lines of the window were not compared
        return {"rows": rows, "next": {"line": found[-1].number}, "looked_at": len(found)}
    extent = extent or _extent(connection, _window(wanted, begin, most))
    last = (extent.least, extent.first_at) if wanted.is_descending else (extent.greatest, extent.last_at)
    has_more = extent.lines == most and not _is_past(wanted, last[1])
    return {"rows": rows, "next": {"line": last[0]} if has_more else None, "looked_at": extent.lines}


class EndedSums(TypedDict):
    """Ended documents by outcome; ``is_complete``: whether all were counted."""

    matches: int
    by_outcome: dict[str, int]
    is_complete: bool


def count_ended(connection: Connection, wanted: MessageFilter, is_counted: bool = True) -> EndedSums:
    """Count ended documents, the newest COUNTED_MAX lines.

    Whole days without a filter by type, key, code or sender are counted by the figures of these days, if all lines are
    counted there (``is_counted``).
    """
    by_outcome = Counter[str]()
    if is_counted and _is_by_days(wanted):
        rows, is_complete = connection.execute(_figures(wanted)).all(), True
    else:
        most = COUNTED_JOINED_MAX if _is_joined(wanted) else COUNTED_MAX
        extent = _extent(connection, _window(wanted, NUMBER_MAX, most))
        within = _within(wanted, extent)
        query = _documents(_window(within, NUMBER_MAX, most), within, with_first=_is_joined(wanted)).subquery()
        rows = connection.execute(
            select(query.c.side, query.c.event, func.count()).group_by(query.c.side, query.c.event)
        ).all()
        is_complete = extent.lines < most
    for side, event, documents in rows:
        by_outcome[outcome_of(side, event)] += int(documents)
    matches = sum(by_outcome.values())
    return {"matches": matches, "by_outcome": dict(by_outcome), "is_complete": is_complete}


class _Extent(Struct, frozen=True):
    """Number of lines of a window, their least and greatest number, and their first and last time, if it has lines."""

    lines: int
    least: int
    greatest: int
    first_at: datetime
    last_at: datetime


def _extent(connection: Connection, window: Select[object]) -> _Extent:
    lines = window.subquery()
    number, at = lines.c.number, lines.c.at
    figures = (func.count(), func.min(number), func.max(number), func.min(at), func.max(at))
    return _Extent(*connection.execute(select(*figures).select_from(lines)).one())


def _within(wanted: AnyFilter, extent: _Extent) -> AnyFilter:
    """Return a filter with the period of the lines of a window: only constants keep partitions out of a plan."""
    if not extent.lines:
        return wanted
    first_ms, last_ms = (math.floor(at.timestamp() * 1000) for at in (extent.first_at, extent.last_at))
    until_ms = last_ms + 1 if wanted.until_ms is None else min(wanted.until_ms, last_ms + 1)
    return replace(wanted, since_ms=max(wanted.since_ms or 0, first_ms), until_ms=until_ms)


def _is_joined(wanted: MessageFilter) -> bool:
    return bool(wanted.type or wanted.key)


def _is_by_days(wanted: MessageFilter) -> bool:
    bounds = (wanted.since_ms or 0, wanted.until_ms or 0)
    others = (wanted.type, wanted.key, wanted.code, wanted.source, wanted.pieces, wanted.side == "submitted")
    return not any(others) and not any(bound % DAY_MS for bound in bounds)


def _figures(wanted: MessageFilter) -> Select[int, int, int]:
    c = semq_figure.c
    partner = node_of(wanted.partner) if wanted.partner else ""
    ends = [
        and_(c.side == side, c.event.in_(events), c.source == (partner if side is Side.RECEIVER else ""),
             c.target == ("" if side is Side.RECEIVER else partner))
        for side, events in _selected(wanted)
    ]  # fmt: skip
    query = select(c.side, c.event, func.sum(c.documents)).where(c.minutes == DAY, or_(False, *ends))
    return query.where(*_in_period(wanted, c.at)).group_by(c.side, c.event)


def _selected(wanted: MessageFilter) -> Iterator[tuple[Side, tuple[Event, ...]]]:
    """Yield the events by role that a filter selects."""
    for side, events in ENDS.items():
        if wanted.side == "submitted":
            chosen: tuple[Event, ...] = (Event.REFUSED,) if side is Side.SENDER else ()
        else:
            chosen = events if wanted.side == "all" or side in SIDES[wanted.side] else ()
        state = (wanted.state or "").upper()
        if fitting := tuple(event for event in chosen if not state or outcome_of(side, event) == state):
            yield side, fitting


def _in_period(wanted: MessageFilter, at: object) -> Conditions:
    if wanted.since_ms is not None:
        yield at >= func.to_timestamp(wanted.since_ms / 1000)
    if wanted.until_ms is not None:
        yield at < func.to_timestamp(wanted.until_ms / 1000)


def _window(wanted: MessageFilter, begin: int, most: int) -> Select[object]:
    """Return the lines to compare: of whole days (UTC), so that each of them is found by the order of an index."""
    selected = [(side, event) for side, events in _selected(wanted) for event in events]
    are_failures = all(event in FAILURES for _, event in selected)
    is_descending = not isinstance(wanted, Search) or wanted.is_descending
    days = MessageFilter(
        since_ms=None if wanted.since_ms is None else wanted.since_ms // DAY_MS * DAY_MS,
        until_ms=None if wanted.until_ms is None else -(-wanted.until_ms // DAY_MS) * DAY_MS,
    )
    return (
        select(L.number, L.at, L.side, L.event, L.lk0, L.target, L.detail)
        .where(
            text(among(FAILURES if are_failures else COUNTED)),
            tuple_(L.side, L.event).in_(selected),
            L.number < begin if is_descending else L.number > begin,
            *_in_period(days, L.at),
        )
        .order_by(L.number.desc() if is_descending else L.number)
        .limit(most)
    )


def _is_past(wanted: Search, last_at: datetime) -> bool:
    """Whether the last compared line is an hour beyond the period, so that no later page has a document."""
    at_ms = last_at.timestamp() * 1000
    bound = wanted.since_ms if wanted.is_descending else wanted.until_ms
    if bound is None:
        return False
    return at_ms < bound - 3_600_000 if wanted.is_descending else at_ms > bound + 3_600_000


def _documents(window: Select[object], wanted: MessageFilter, *, with_first: bool) -> Select[object]:
    """Return the documents of a window of lines that fit; ``with_first``: with the facts of their first lines."""
    w, f, a, o = window.subquery("w"), semq_ledger.alias("f"), semq_ledger.alias("a"), semq_ledger.alias("o")
    days = cast(literal_column(f"'{NEAR_DAYS} days'"), INTERVAL)
    near = (w.c.at - days, w.c.at + cast(literal_column("'1 hour'"), INTERVAL))
    # The same for all lines of the period: only what is constant keeps partitions out of the plan.
    period = MessageFilter(
        since_ms=None if wanted.since_ms is None else wanted.since_ms - NEAR_DAYS * DAY_MS,
        until_ms=None if wanted.until_ms is None else wanted.until_ms + DAY_MS,
    )
    accepted = select(a.c.number).where(
        a.c.lk0 == w.c.lk0, a.c.event == Event.ACCEPTED, a.c.at.between(*near), *_in_period(period, a.c.at)
    )
    is_attempt = and_(w.c.event == Event.REFUSED, w.c.side == Side.SENDER, accepted.exists())
    begins = (Event.ACCEPTED, Event.RECEIVED)
    first = (
        select(f.c.at, f.c.event, *(f.c[name] for name in OF_FIRST))
        .where(f.c.lk0 == w.c.lk0, f.c.side == w.c.side, f.c.at.between(*near), f.c.event.in_([*begins, w.c.event]))
        .where(*_in_period(period, f.c.at))
        .order_by(f.c.number)
        .limit(1)
        .lateral("first")
    )
    # A refused submission and a hub's copy have no such line.
    has_older = and_(first.c.event.not_in(begins), w.c.event != Event.REFUSED, w.c.side != Side.HUB)
    older = (
        select(o.c.at, *(o.c[name] for name in OF_FIRST))
        .where(has_older, o.c.lk0 == w.c.lk0, o.c.side == w.c.side, o.c.at < near[0], o.c.event.in_(begins))
        .limit(1)
        .lateral("older")
    )
    names = ("at", *OF_FIRST)
    facts = {name: func.coalesce(older.c[name], first.c[name]) for name in names}
    labelled = [fact.label("began_at" if name == "at" else name) for name, fact in facts.items()]
    joined = w.join(first, true(), isouter=True).join(older, true(), isouter=True)
    query = select(w, *labelled).select_from(joined) if with_first else select(w)
    return query.where(~is_attempt, w.c.detail.not_like(f"%{MARKER}"), *_conditions(wanted, w.c, facts))


def _conditions(
    wanted: MessageFilter, c: Columns, facts: Mapping[str, ColumnElement[str]]
) -> Iterator[ColumnElement[bool]]:
    yield from _in_period(wanted, c.at)
    if not wanted.pieces:
        yield c.target.not_like(f"%/{PIECES_USER}")
    source = func.split_part(c.lk0, ".", 1) + "." + func.split_part(c.lk0, ".", 2)
    target = func.split_part(c.target, "/", 1)
    if wanted.partner:
        yield case((c.side == Side.RECEIVER, source), else_=target) == node_of(wanted.partner)
    if wanted.source:
        yield source == node_of(wanted.source)
    if wanted.code:
        yield c.detail.startswith(wanted.code, autoescape=True)
    if wanted.mark:
        yield literal_column("false")
    if wanted.type:
        yield facts["app_type"] == wanted.type
    if wanted.key:
        yield facts["app_key"].startswith(wanted.key, autoescape=True)


def _facts(row: TableRow) -> MessageRow:
    """Return a document as facts, with the names of ``messages.outbound_facts`` and ``inbound_facts``."""
    key = (row.app_domain, row.app_type, row.app_subtype, row.app_key)
    code, _, words = row.detail.partition(" ")
    at = round(row.at.timestamp() * 1000)
    return {
        "side": "inbound" if row.side == Side.RECEIVER else "outbound",
        "direction": "RELAYED" if row.side == Side.HUB else "OWN",
        "id": row.number, "name": short_name(row.lk0), "lk0": row.lk0, "at": at, "ended_at": at,
        "began_at": None if row.began_at is None else round(row.began_at.timestamp() * 1000),
        "source": ".".join(row.lk0.split(".")[:2]), "target": row.target, "size": row.size or 0,
        "app_key": "/".join(map(str, key)) if any(key) else "", "outcome": outcome_of(row.side, row.event),
        "reason": [code.rstrip(":"), words] if code.startswith("SEMQ-") else None, "cleaned": True,
    }  # fmt: skip
