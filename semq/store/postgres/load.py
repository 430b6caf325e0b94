"""Loading of a unit: the statements for its needs, and their results as a ``Unit``.

One row is one object in the whole unit, however it was found, so that a piece of work sees the changes of earlier work.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from psycopg.pq.abc import PGresult

from semq.store.postgres.conversion.binary import Param, int2, int8, int8s, moment, texts
from semq.store.postgres.conversion.rows import outbound_of, pending_of, read_lk0, recorded_of, seen_of
from semq.store.postgres.pipeline import PipelineWire, Rows
from semq.store.recent_rows import RecentRows
from semq.store.rows import (
    ClientToken,
    InStream,
    InStreamKey,
    KeptKey,
    OrderKey,
    Outbound,
    OutStream,
    OutStreamKey,
    Slot,
    Stored,
    Submitted,
)
from semq.store.unit import (
    DoneRows,
    DueSubmissions,
    ExpiredRows,
    FirstInOrder,
    InboxTracks,
    KeptKeys,
    Needs,
    OpenSubmission,
    Query,
    RefusedBy,
    RefusedSubmissions,
    StreamsTo,
    SubmittedRows,
    TokenSubmissions,
    Unfinished,
    Unit,
    Unsent,
    Unsettled,
    Waiting,
)
from semq.umx_t.locator import Pos

StatementCall = tuple[str, list[Param]]  # name of a prepared statement, its packed parameters
ResultReader = Callable[[Unit, Rows], None]  # puts rows into a unit


class Load:
    """One load: the batch to send, and the reader of each result."""

    def __init__(self, needs: Needs, recent: RecentRows) -> None:
        """``recent``: rows that need not be read; the load takes them."""
        self.batch: list[StatementCall] = []
        self._readers: list[ResultReader] = []
        self._known: dict[str, dict[Any, object]] = {}  # by field of ``Unit``
        for name, plan in _PLANS.items():
            keys = getattr(needs, name)
            if keys:
                self._known[name], others = recent.take(name, keys)
                if others:
                    self._add(*plan(others))
        if needs.in_streams:
            self._known["in_streams"], streams = recent.take("in_streams", needs.in_streams)
            if streams:
                self._add(*_in_streams(streams, recent))
        by_stream: dict[InStreamKey, list[int]] = defaultdict(list)
        for stream, sid in needs.recorded:
            if recent.may_be_recorded(stream, sid):
                by_stream[stream].append(sid)
        for stream, sids in by_stream.items():
            self._add(*_recorded(stream, sids))
        for query in needs.queries:
            self._add(*_query(query))

    def _add(self, call: StatementCall, put: ResultReader) -> None:
        self.batch.append(call)
        self._readers.append(put)

    def unit(self, wire: PipelineWire, results: Sequence[PGresult]) -> Unit:
        unit = Unit()
        for name, rows in self._known.items():
            getattr(unit, name).update(rows)
        for put, result in zip(self._readers, results, strict=True):
            put(unit, wire.rows(result))
        return unit


# ------------------------------------------------------------------------------------------------------------- by key
# Results of queries are read after rows by key. For a row in both, ``outbound_found`` and ``pending_found`` return the
# object that was read by key.


def _outbound(keys: list[int]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        unit.outbound.update((row[0], outbound_of(row)) for row in rows)

    return ("outbound", [int8s(keys)]), put


def _relayed(keys: list[str]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        for values in rows:
            row = unit.outbound.setdefault(values[0], outbound_of(values))
            unit.relayed[values[2]] = row

    return ("relayed", [texts(keys)]), put


def _tokens(keys: list[str]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        unit.tokens.update((token, ClientToken(read_lk0(lk0), digest)) for token, lk0, digest in rows)

    return ("tokens", [texts(keys)]), put


def _out_stream(dest: str, inc: int, next_sid: int) -> OutStream:
    return OutStream(OutStreamKey(dest, inc), next_sid)


def _out_streams(keys: list[OutStreamKey]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        for values in rows:
            stream = _out_stream(*values)
            unit.out_streams[stream.key] = stream

    return ("out_streams", [texts([key.dest for key in keys]), int8s([key.inc for key in keys])]), put


def _last_pos(keys: list[OrderKey]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        unit.last_pos.update((OrderKey(dest, key), Pos(inc, sid)) for dest, key, inc, sid in rows)

    return ("last_pos", [texts([key.dest for key in keys]), texts([key.key for key in keys])]), put


def _in_streams(keys: list[InStreamKey], recent: RecentRows) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        for place, number, floor, closed, top in rows:
            key = keys[place - 1]
            recent.note_top(key, -1 if top is None else top)
            unit.in_streams[key] = InStream(key, number, floor, closed)

    return ("in_streams", [texts([str(key.store) for key in keys]), int8s([key.inc for key in keys])]), put


def _recorded(stream: InStreamKey, sids: list[int]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        unit.recorded.update((Slot(stream, values[0]), recorded_of(values[1:])) for values in rows)

    return ("recorded", [str(stream.store).encode(), int8(stream.inc), int8s(sids)]), put


def _seen(keys: list[str]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        unit.seen.update((values[0], seen_of(values[1:])) for values in rows)

    return ("seen", [texts(keys)]), put


def _pending(keys: list[int]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        unit.pending.update((row[0], pending_of(row)) for row in rows)

    return ("pending", [int8s(keys)]), put


def _bodies(keys: list[int]) -> tuple[StatementCall, ResultReader]:
    def put(unit: Unit, rows: Rows) -> None:
        unit.bodies.update((object_id, Stored(envelope, payload)) for object_id, envelope, payload in rows)

    return ("bodies", [int8s(keys)]), put


# Field of ``Needs`` | its statement and reader. "outbound" precedes "relayed", so that a row that both find is one
# object.
_PLANS: dict[str, Callable[[list[Any]], tuple[StatementCall, ResultReader]]] = {
    "outbound": _outbound,
    "relayed": _relayed,
    "tokens": _tokens,
    "out_streams": _out_streams,
    "last_pos": _last_pos,
    "seen": _seen,
    "pending": _pending,
    "bodies": _bodies,
}


# ----------------------------------------------------------------------------------------------------------- by query


def _read_unsent(unit: Unit, rows: Rows) -> list[Outbound]:
    for row in rows:
        if row[-2] is not None:
            unit.bodies.setdefault(row[0], Stored(row[-2], row[-1]))
    return [outbound_of(row[:-2]) for row in rows]


def _read_waiting(unit: Unit, rows: Rows) -> list[object]:
    unit.pending_bodies.update((row[0], Stored(row[-2], row[-1])) for row in rows if row[-2] is not None)
    return [pending_of(row[:-2]) for row in rows]


def _read_outbound(unit: Unit, rows: Rows) -> list[object]:
    return [outbound_of(row) for row in rows]


def _read_pending(unit: Unit, rows: Rows) -> list[object]:
    return [pending_of(row) for row in rows]


def _read_submitted(unit: Unit, rows: Rows) -> list[object]:
    return [Submitted(*row) for row in rows]


def _track(query: Unsent) -> list[Param]:
    """Return source and priority as parameters; none for own rows of priority 0, which the index of tracks excludes."""
    return [query.source.encode(), int2(query.priority)] if query.source or query.priority else []


# Query | its parameters | reader of its rows.
_QUERIES: dict[type, tuple[Callable[[Any], list[Param]], Callable[[Unit, Rows], list[Any]]]] = {
    Unsent: (
        lambda q: [q.dest.encode(), int8(q.after), int8(q.limit), int8(q.payloads_bytes_max), *_track(q)],
        _read_unsent,
    ),
    Waiting: (
        lambda q: [
            *(q.user.encode(), int8(q.after), int8(q.limit), int8(q.payloads_bytes_max)),
            *(q.source.encode(), int2(q.priority)),
        ],
        _read_waiting,
    ),
    InboxTracks: (lambda q: [q.user.encode()], lambda unit, rows: [(source, priority) for source, priority in rows]),
    Unsettled: (lambda q: [int8(q.first), int8(q.last), int8(q.limit)], _read_outbound),
    Unfinished: (lambda q: [int8(q.first), int8(q.last), int8(q.limit)], _read_pending),
    FirstInOrder: (lambda q: [q.store.encode(), q.order_key.encode()], _read_pending),
    StreamsTo: (lambda q: [q.dest.encode()], lambda unit, rows: [_out_stream(*row) for row in rows]),
    ExpiredRows: (lambda q: [moment(q.now), int8(q.limit)], _read_outbound),
    SubmittedRows: (
        lambda q: [int8(q.limit), texts(q.without), int8(q.payload_bytes_max), int8(q.headers_bytes_max)],
        _read_submitted,
    ),
    RefusedSubmissions: (lambda q: [texts(q.lk0s)], _read_submitted),
    OpenSubmission: (lambda q: [int8(q.number)], _read_submitted),
    TokenSubmissions: (lambda q: [texts(q.tokens)], _read_submitted),
    DueSubmissions: (lambda q: [moment(q.now), int8(q.limit)], lambda unit, rows: [tuple(row) for row in rows]),
    RefusedBy: (lambda q: [q.dest.encode(), q.code.encode(), int8(q.after), int8(q.limit)], _read_outbound),
    KeptKeys: (lambda q: [q.peer.encode(), int8(q.limit)], lambda unit, rows: [KeptKey(*row) for row in rows]),
    DoneRows: (lambda q: [int8(q.limit)], lambda unit, rows: [tuple(row) for row in rows]),
}


def _query(query: Query) -> tuple[StatementCall, ResultReader]:
    params, read = _QUERIES[type(query)]

    def put(unit: Unit, rows: Rows) -> None:
        unit.found[query] = read(unit, rows)

    name = "UnsentTrack" if isinstance(query, Unsent) and _track(query) else type(query).__name__
    return (name, params(query)), put
