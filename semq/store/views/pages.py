"""Pages of messages by any filter, at a limited cost.

A filter by a column without an index may match only a few of millions of rows. So a page compares at most
``COMPARED_MAX`` rows of each queue, and contains the place where the next page begins.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Annotated, Any, Literal

from msgspec import Meta
from sqlalchemy import Column, Connection, func, select
from sqlalchemy.sql.elements import ColumnElement

from semq.store.tables import tb_0030, tb_0031
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
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.status import AppStatus, Arrival, Outcome, SendStatus

COMPARED_MAX = 50_000
NUMBER_MAX = (1 << 63) - 1
Moment = Annotated[int, Meta(ge=0, le=MOMENT_MAX)]
Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]


@dataclass(frozen=True, slots=True)
class Search:
    """The selection, order and place of a page. A condition that is None matches every message."""

    side: Literal["all", "outbound", "inbound"] = "all"
    state: str | None = None  #: name of a status or an outcome
    partner: str | None = None  #: the institution at the other end; at a hub, the target
    source: str | None = None  #: at a hub, the sending institution
    type: str | None = None  #: data type of the AppKey
    key: str | None = None  #: beginning of the AppKey's key
    code: str | None = None  #: of the reason
    mark: Literal["held", "parked", "void"] | None = None  #: of a row of tb_0031
    since_ms: Moment | None = None  #: inclusive
    until_ms: Moment | None = None  #: exclusive
    order: Literal["newest", "oldest"] = "newest"
    outbound: Number | None = None  #: row number in tb_0031 after which the page begins; None: first page
    inbound: Number | None = None  #: row number in tb_0030, likewise
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    pieces: bool = False  #: also pieces of documents

    @property
    def is_descending(self) -> bool:
        return self.order == "newest"


@dataclass(frozen=True, slots=True)
class _Queue:
    side: str
    table: Any
    number: Column[int]
    at: Column[Any]
    states: Mapping[str, Any]  #: columns with states, and their types
    facts: Callable[[Any], dict[str, Any]]
    is_piece: Callable[[Any], ColumnElement[bool]]


OF_SENT = {"ss_status": SendStatus, "outcome": Outcome}
OF_RECEIVED = {"app_status": AppStatus, "status": Arrival}
QUEUES = (
    _Queue("outbound", tb_0031, OUT.object_id, OUT.accepted_at, OF_SENT, outbound_facts, is_sent_piece),
    _Queue("inbound", tb_0030, IN.bref, IN.received_at, OF_RECEIVED, inbound_facts, is_received_piece),
)


def search_page(connection: Connection, wanted: Search) -> dict[str, Any]:
    """Return ``rows``, ``next`` and ``looked_at``, the number of compared rows.

    ``next`` has ``outbound`` and ``inbound`` of the next page; None: this is the last page.
    """
    first, end = (NUMBER_MAX, 0) if wanted.is_descending else (0, NUMBER_MAX)
    begins = {queue.side: _begin(wanted, queue.side, first) for queue in QUEUES}
    matching: dict[str, list[dict[str, Any]]] = {}
    windows: dict[str, tuple[int, int]] = {}  # see _window_size
    for queue in QUEUES:
        if begins[queue.side] != end and _is_selected(wanted, queue.side):
            matching[queue.side] = _rows(connection, queue, wanted, begins[queue.side])
            windows[queue.side] = _window_size(connection, queue, wanted, begins[queue.side])
    # Each queue stays in the order of numbers: no row is hidden if the wall clock was put back.
    merged = merge(*matching.values(), key=lambda row: row["at"], reverse=wanted.is_descending)
    rows = list(islice(merged, wanted.limit))
    places = dict.fromkeys(begins, end)
    for side, candidates in matching.items():
        shown = [row for row in rows if row["side"] == side]
        if len(shown) < len(candidates) or len(candidates) >= wanted.limit:
            places[side] = int(shown[-1]["id"]) if shown else begins[side]
        elif windows[side][0] >= COMPARED_MAX:
            places[side] = windows[side][1]
    has_more = any(place != end for place in places.values())
    return {"rows": rows, "next": places if has_more else None, "looked_at": sum(n for n, _ in windows.values())}


def _begin(wanted: Search, side: str, first: int) -> int:
    number: int | None = getattr(wanted, side)
    return first if number is None else number


def _is_selected(wanted: Search, side: str) -> bool:
    only_outbound = wanted.source is not None or wanted.mark is not None
    return wanted.side in ("all", side) and not (side == "inbound" and only_outbound)


def _rows(connection: Connection, queue: _Queue, wanted: Search, begin: int) -> list[dict[str, Any]]:
    window = _window(select(queue.table), queue, wanted, begin).subquery()
    number = window.c[queue.number.name]
    query = select(window).where(*_conditions(queue, wanted, window.c))
    query = query.order_by(number.desc() if wanted.is_descending else number).limit(wanted.limit)
    return [queue.facts(row) for row in connection.execute(query)]


def _window_size(connection: Connection, queue: _Queue, wanted: Search, begin: int) -> tuple[int, int]:
    """Return the count of compared rows, and the number of the last one."""
    window = _window(select(queue.number), queue, wanted, begin).subquery()
    number = window.c[queue.number.name]
    last = func.min(number) if wanted.is_descending else func.max(number)
    count, at = connection.execute(select(func.count(), last).select_from(window)).one()
    return int(count), int(at or 0)


def _window(query: Any, queue: _Queue, wanted: Search, begin: int) -> Any:
    """Return the query for the rows to compare; for tb_0031, ``partner`` selects them by an index."""
    place = queue.number < begin if wanted.is_descending else queue.number > begin
    if wanted.partner and queue.side == "outbound":
        query = query.where(OUT.dest == node_of(wanted.partner))
    order = queue.number.desc() if wanted.is_descending else queue.number.asc()
    return query.where(place).order_by(order).limit(COMPARED_MAX)


def _conditions(queue: _Queue, wanted: Search, c: Any) -> Iterator[ColumnElement[bool]]:
    if not wanted.pieces:
        yield ~queue.is_piece(c)
    if wanted.partner and queue.side == "inbound":
        yield c.store.startswith(f"{node_of(wanted.partner)}.", autoescape=True)
    if wanted.source:
        yield c.lk0.startswith(f"{node_of(wanted.source)}.", autoescape=True)
    if wanted.state:
        yield has_state(wanted.state, queue.states, c)
    if wanted.mark:
        yield c[wanted.mark]
    if wanted.code:
        yield c.reason_code == wanted.code
    if wanted.type:
        yield c.app_type == wanted.type
    if wanted.key:
        yield c.app_key.startswith(wanted.key, autoescape=True)
    if wanted.since_ms is not None:
        yield c[queue.at.name] >= func.to_timestamp(wanted.since_ms / 1000)
    if wanted.until_ms is not None:
        yield c[queue.at.name] < func.to_timestamp(wanted.until_ms / 1000)


def rows_of(connection: Connection, side: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
    """Return rows of one queue by their numbers, the newest first."""
    queue = next(queue for queue in QUEUES if queue.side == side)
    query = select(queue.table).where(queue.number.in_(numbers)).order_by(queue.number.desc())
    return [queue.facts(row) for row in connection.execute(query)]
