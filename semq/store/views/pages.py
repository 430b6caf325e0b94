"""Pages of messages by any filter, at a limited cost.

A filter by a column without an index may match only a few of millions of rows. So a page compares at most
``COMPARED_MAX`` rows of each queue, and contains the place where the next page begins.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from heapq import merge
from itertools import islice

from msgspec import Struct
from sqlalchemy import Connection, Select, Subquery, and_, func, select
from sqlalchemy.sql.elements import ColumnElement

from semq.answers.messages import MessagePage, MessageRow
from semq.store.submission_tables import tb_0031_submit
from semq.store.tables import Columns, TableRow, tb_0030, tb_0031
from semq.store.views import submissions
from semq.store.views.ended import Conditions, ended_page
from semq.store.views.messages import (
    IN,
    OUT,
    has_state,
    inbound_facts,
    is_received_piece,
    is_sent_piece,
    node_of,
    outbound_facts,
)
from semq.store.views.selection import NUMBER_MAX, Search
from semq.umx_t.status import AppStatus, Arrival, Outcome, SendStatus

COMPARED_MAX = 50_000
OF_SENT = {"ss_status": SendStatus, "outcome": Outcome}
OF_RECEIVED = {"app_status": AppStatus, "status": Arrival}
Condition = Callable[[Columns], ColumnElement[bool]]
Rows = list[MessageRow]


class Subset(Struct, frozen=True):
    """Conditions in addition to a filter, for each queue; functions get the columns."""

    outbound: Condition
    inbound: Condition
    submitted: ColumnElement[bool]


class _Queue(Struct, frozen=True):
    name: str  #: its cursor in ``Search``
    number: ColumnElement[int]
    rows: Callable[[Connection, Select[int], Search, Subset | None], Rows]  #: the second argument is the window of rows
    is_selected: Callable[[Search], bool]


def search_page(connection: Connection, wanted: Search, subset: Subset | None = None) -> MessagePage:
    """Return ``rows``, ``next`` and ``looked_at``, the number of compared rows.

    ``next`` has the places in the queues where the next page begins; None: this is the last page.
    """
    if wanted.ended:
        return ended_page(connection, wanted)
    first, end = (NUMBER_MAX, 0) if wanted.is_descending else (0, NUMBER_MAX)
    begins = {queue.name: _begin(wanted, queue, first) for queue in QUEUES}
    matching: dict[str, Rows] = {}
    windows: dict[str, tuple[int, int]] = {}  # see _window_size
    for queue in QUEUES:
        if begins[queue.name] != end and queue.is_selected(wanted):
            window = _window(queue, wanted, begins[queue.name])
            matching[queue.name] = queue.rows(connection, window, wanted, subset)
            windows[queue.name] = _window_size(connection, window, wanted)
    # Each queue stays in the order of numbers: no row is hidden if the wall clock was put back.
    marked = ([(name, row) for row in rows] for name, rows in matching.items())
    merged = merge(*marked, key=lambda pair: pair[1]["at"], reverse=wanted.is_descending)
    page = list(islice(merged, wanted.limit))
    places = dict.fromkeys(begins, end)
    for name, candidates in matching.items():
        shown = [row for queue_name, row in page if queue_name == name]
        if len(shown) < len(candidates) or len(candidates) >= wanted.limit:
            places[name] = _number_of(shown[-1]) if shown else begins[name]
        elif windows[name][0] >= COMPARED_MAX:
            places[name] = windows[name][1]
    has_more = any(place != end for place in places.values())
    looked_at = sum(count for count, _ in windows.values())
    return {"rows": [row for _, row in page], "next": places if has_more else None, "looked_at": looked_at}


def _begin(wanted: Search, queue: _Queue, first: int) -> int:
    number: int | None = getattr(wanted, queue.name)
    return first if number is None else number


def _number_of(row: MessageRow) -> int:
    return int(row["submission"] if "submission" in row else row["id"])


def _window(queue: _Queue, wanted: Search, begin: int) -> Select[int]:
    """Return the numbers of the rows to compare; for tb_0031, ``partner`` selects them by an index."""
    number = queue.number
    query = select(number).where(number < begin if wanted.is_descending else number > begin)
    if wanted.partner and queue.name == "outbound":
        query = query.where(OUT.dest == node_of(wanted.partner))
    return query.order_by(number.desc() if wanted.is_descending else number).limit(COMPARED_MAX)


def _window_size(connection: Connection, window: Select[int], wanted: Search) -> tuple[int, int]:
    """Return the count of compared rows, and the number of the last one."""
    rows = window.subquery()
    (number,) = rows.c
    last = func.min(number) if wanted.is_descending else func.max(number)
    count, at = connection.execute(select(func.count(), last).select_from(rows)).one()
    return int(count), int(at or 0)


def _sent(connection: Connection, window: Select[int], wanted: Search, subset: Subset | None) -> Rows:
    rows = window.with_only_columns(tb_0031).subquery()
    conditions = [*_conditions(wanted, rows.c, rows.c.accepted_at, OF_SENT)]
    if not wanted.pieces:
        conditions.append(~is_sent_piece(rows.c))
    if wanted.source:
        conditions.append(rows.c.lk0.startswith(f"{node_of(wanted.source)}.", autoescape=True))
    if wanted.mark:
        conditions.append(rows.c[wanted.mark])
    if subset is not None:
        conditions.append(subset.outbound(rows.c))
    return [outbound_facts(row) for row in _found(connection, rows, rows.c.object_id, conditions, wanted)]


def _received(connection: Connection, window: Select[int], wanted: Search, subset: Subset | None) -> Rows:
    rows = window.with_only_columns(tb_0030).subquery()
    conditions = [*_conditions(wanted, rows.c, rows.c.received_at, OF_RECEIVED)]
    if not wanted.pieces:
        conditions.append(~is_received_piece(rows.c))
    if wanted.partner:
        conditions.append(rows.c.store.startswith(f"{node_of(wanted.partner)}.", autoescape=True))
    if subset is not None:
        conditions.append(subset.inbound(rows.c))
    return [inbound_facts(row) for row in _found(connection, rows, rows.c.bref, conditions, wanted)]


def _found(
    connection: Connection, rows: Subquery, number: ColumnElement[object], conditions: Conditions, wanted: Search
) -> Iterable[TableRow]:
    order = number.desc() if wanted.is_descending else number
    return connection.execute(select(rows).where(*conditions).order_by(order).limit(wanted.limit))


def _submitted(connection: Connection, window: Select[int], wanted: Search, subset: Subset | None) -> Rows:
    # As bounds: Postgres would search the numbers of a window for each row of the table that fits.
    number, rows = tb_0031_submit.c.number, window.subquery()
    last = select((func.min if wanted.is_descending else func.max)(rows.c.number)).scalar_subquery()
    assert window.whereclause is not None
    is_in_window = and_(window.whereclause, number >= last if wanted.is_descending else number <= last)
    conditions = [is_in_window, *submissions.conditions(wanted)]
    if subset is not None:
        conditions.append(subset.submitted)
    return submissions.list_submissions(connection, wanted.limit, *conditions, is_descending=wanted.is_descending)


def _conditions(wanted: Search, c: Columns, at: object, states: Mapping[str, type[IntEnum]]) -> Conditions:
    """Yield the conditions that the rows of both tables have."""
    if wanted.state:
        yield has_state(wanted.state, states, c)
    if wanted.code:
        yield c.reason_code == wanted.code
    if wanted.type:
        yield c.app_type == wanted.type
    if wanted.key:
        yield c.app_key.startswith(wanted.key, autoescape=True)
    if wanted.since_ms is not None:
        yield at >= func.to_timestamp(wanted.since_ms / 1000)
    if wanted.until_ms is not None:
        yield at < func.to_timestamp(wanted.until_ms / 1000)


# Only messages of tb_0031 have marks, and sources at a hub.
QUEUES = (
    _Queue("outbound", OUT.object_id, _sent, lambda wanted: wanted.side in ("all", "outbound")),
    _Queue(
        "inbound", IN.bref, _received,
        lambda wanted: wanted.side in ("all", "inbound") and not (wanted.source or wanted.mark),
    ),
    _Queue(
        "submitted", tb_0031_submit.c.number, _submitted,
        lambda wanted: wanted.side != "inbound" and not (wanted.source or wanted.mark),
    ),
)  # fmt: skip
