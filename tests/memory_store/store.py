"""The store in memory: the second implementation of ``WorkStore``, for the simulator.

The phases of a transaction are run one by one (``begin``, ``commit``, ``deliver``), so that a simulated process can
crash between two of them, or never learn the result of a commit. The store refuses what Postgres refuses.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any, assert_never

from semq.engine.receiver.pieces import is_stored_piece
from semq.engine.sender.endings import says_returned
from semq.errors import SemqError
from semq.store import spans
from semq.store import unit as u
from semq.store.postgres.errors import StoreFenced, StoreUnavailable
from semq.store.rows import (
    Certificates,
    KeptKey,
    LedgerLine,
    Outbound,
    OutStreamKey,
    Pending,
    RetiredStore,
    Stored,
    StoredPiece,
)
from semq.store.unit import Needs, Recovered, StoppedOrder, StreamState, Unit, first_id
from semq.store.work import Work, begin_attempts
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus
from tests.memory_store import submissions
from tests.memory_store.ended import Row as AnyRow
from tests.memory_store.ended import end, new_rows_of, rows_of
from tests.memory_store.guards import check
from tests.memory_store.tables import (
    Tables,
    copy_in_stream,
    copy_out_stream,
    copy_outbound,
    copy_pending,
)

# The copiers of rows, by table. Rows of the last five tables are never changed.
COPIERS: dict[str, Callable[[Any], Any]] = {
    "outbound": copy_outbound,
    "out_streams": copy_out_stream,
    "in_streams": copy_in_stream,
    "pending": copy_pending,
    **dict.fromkeys(("tokens", "last_pos", "recorded", "seen", "bodies"), lambda row: row),
}
SEEN_MAX = 100_000  # entries of classes 1 and 2 (PROTOCOL.md section 3)


class CommitFault(Enum):
    """A fault at a commit."""

    NONE = "nothing"
    ROLLED_BACK = "the connection broke, and nothing was written"
    ANSWER_LOST = "all was written, but the answer was lost"
    REDONE = "a first attempt was rolled back and decided again"


class MemoryStore:
    """The writer of one process: commits posted work in units.

    ``group``: returns the number of pieces of work in the next unit, given the number of waiting ones.
    """

    def __init__(self, tables: Tables | None = None, group: Callable[[int], int] = lambda waiting: waiting) -> None:
        self.tables = tables or Tables("memory")
        self.tables.owner += 1
        self._owner = self.tables.owner
        self._group = group
        self._queue: list[Work] = []
        self._ahead: list[Work] = []  # work whose bodies are stored ahead; it follows the queued work
        self._is_due = False  # whether queued work is processed without waiting for more
        self._fault: SemqError | None = None  # set when the store is lost
        self._open: list[Work] = []  # work of the open transaction
        self._unit: Unit | None = None
        self._loaded: list[AnyRow] = []  # rows of the open unit, which are made unusable at its end
        self._to_notify: list[tuple[Work, Exception | None]] = []
        self.unwritten: list[LedgerLine] = []

    # --- WorkStore
    def post(self, work: Work, *, later: bool = False) -> None:
        """Queue a piece of work. If the store is lost, the next ``deliver`` reports a failure."""
        if self._fault is not None:
            self._to_notify.append((work, self._fault))
        else:
            (self._ahead if work.ahead else self._queue).append(work)
            self._is_due = self._is_due or not later

    def make_due(self) -> None:
        """Make all queued work due."""
        self._is_due = bool(self._queue)

    def recover(self, inc: int) -> Recovered:
        """Open the store for a new process (S14)."""
        tables = self.tables
        tables.boot += 1
        tables.inc = inc
        rows, pending = tables.outbound.values(), tables.pending.values()
        backlog: dict[str, int] = {}
        for row in rows:
            if row.outcome is None:
                backlog[row.dest] = backlog.get(row.dest, 0) + 1
        return Recovered(
            store_uuid=tables.store_uuid,
            boot=tables.boot,
            inc=inc,
            first_id=first_id(tables.boot),
            streams=list(_stream_states(tables)),
            backlog=backlog,
            refused=dict(
                Counter(row.dest for row in rows if row.outcome is None and row.held and says_returned(row.reason))
            ),
            tracks=dict(Counter(sorted((row.dest, row.source, row.priority) for row in rows if row.outcome is None))),
            unsettled=sum(backlog.values()),
            settled=sorted(row.object_id for row in rows if row.outcome is not None),
            finished=sorted(row.bref for row in pending if row.is_removable),
            pending=sum(not row.is_removable for row in pending),
            stopped_orders=sorted(
                {
                    StoppedOrder(row.lk0.store, row.order_key, row.target.user)
                    for row in pending
                    if row.order_key and row.app_status is AppStatus.NEW and row.status is not Arrival.RECV
                }
            ),
            retired=[row for row in tables.rare_rows if isinstance(row, RetiredStore)],
            custody=spans.in_custody(_custody_groups(rows)),
            pieces=[StoredPiece(row.bref, row.source, row.size) for row in pending if is_stored_piece(row)],
        )

    # --- the phases of a transaction
    @property
    def idle(self) -> bool:
        return not (self._queue or self._ahead or self._open or self._to_notify)

    @property
    def phase(self) -> str:
        """The next phase: ``begin``, ``commit`` or ``deliver``; empty if nothing is due."""
        if self._unit is not None:
            return "commit"
        if self._to_notify:
            return "deliver"
        return "begin" if self._is_due else ""

    @property
    def is_waiting(self) -> bool:
        """Whether all queued work can wait for other work or for ``make_due``."""
        return bool(self._queue) and not self._is_due

    @property
    def open_unit(self) -> Unit | None:
        """The unit that is decided and not committed."""
        return self._unit

    @property
    def is_lost(self) -> bool:
        return self._fault is not None

    def begin(self) -> None:
        """Open a transaction for the next unit, load it and let each piece decide. A piece that raises fails alone."""
        if not self._queue:
            self._queue, self._ahead = self._ahead, []
        count = max(1, min(self._group(len(self._queue)), len(self._queue)))
        self._open, self._queue = self._queue[:count], self._queue[count:] + self._ahead
        self._ahead = []
        self._is_due = bool(self._queue)
        self._unit = self._decide_all()

    def commit(self, fault: CommitFault = CommitFault.NONE) -> None:
        """Write the open unit completely or not at all. Raises DecisionFailed if a guard refuses the unit."""
        if fault is CommitFault.REDONE:
            self._end(self._unit)
            self._unit = self._decide_all()
        unit, works = self._unit, self._open
        self._unit, self._open = None, []
        assert unit is not None
        error: Exception | None = None
        if self._owner != self.tables.owner:
            error = StoreFenced()
        elif fault is CommitFault.ROLLED_BACK:
            error = StoreUnavailable()
        else:
            self.write(unit)
            error = StoreUnavailable() if fault is CommitFault.ANSWER_LOST else None
        self._end(unit)
        self._to_notify += [(work, error) for work in works]

    def _end(self, unit: Unit | None) -> None:
        if unit is not None:
            end(self._loaded)
            end(new_rows_of(unit))
        self._loaded = []

    def deliver(self) -> None:
        """Notify each piece of work of the result. Once the store is lost, all waiting work fails."""
        for _, error in self._to_notify:
            if isinstance(error, StoreUnavailable):
                self._fault = error
                break
        if self._fault is not None:
            self._to_notify += [(work, self._fault) for work in (*self._queue, *self._ahead)]
            self._queue, self._ahead, self._is_due = [], [], False
        results, self._to_notify = self._to_notify, []
        for work, error in results:
            if error is None:
                work.finish()
            else:
                work.abandon(error)

    def run(self, fault: CommitFault = CommitFault.NONE) -> None:
        """Run all phases for one unit, if work waits."""
        if self._queue or self._ahead:
            self.begin()
            self.commit(fault)
        self.deliver()

    def run_all(self) -> None:
        """Commit until no work is left, including ``later`` work and work posted after a commit."""
        while not self.idle:
            self.run()

    def write(self, unit: Unit) -> None:
        """Check a unit and apply it. The simulator overrides this method."""
        check(self.tables, unit)
        apply(self.tables, unit)

    def _decide_all(self) -> Unit:
        while True:
            unit = load(self.tables, begin_attempts(self._open))
            self._loaded = rows_of(unit)
            for work in self._open:
                try:
                    work.decide(unit)
                except SemqError as error:
                    self._end(unit)
                    self._to_notify.append((work, error))
                    self._open = [piece for piece in self._open if piece is not work]
                    break
            else:
                return unit


# ------------------------------------------------------------------------------------------------------- loading


def load(tables: Tables, needs: Needs) -> Unit:
    """Return a unit with copies of the needed rows."""
    unit = Unit()
    for name, copy in COPIERS.items():
        if keys := getattr(needs, name):
            rows = getattr(tables, name)
            setattr(unit, name, {key: copy(rows[key]) for key in keys if key in rows})
    for ident in needs.relayed:
        object_id = tables.relayed.get(ident)
        if object_id is not None:
            row = unit.outbound.setdefault(object_id, copy_outbound(tables.outbound[object_id]))
            unit.relayed[ident] = row
    for query in needs.queries:
        unit.found[query] = list(_rows_of(tables, unit, query))
    return unit


def _custody_groups(rows: Iterable[Outbound]) -> list[tuple[int, int, bool]]:
    """Return the argument of ``spans.in_custody``."""
    groups: dict[int, list[Outbound]] = {}
    for row in sorted(rows, key=lambda row: row.object_id):
        if row.outcome is None and row.direction is Direction.OWN:
            groups.setdefault(row.object_id >> spans.GROUP_BITS, []).append(row)
    return [
        (group[0].object_id, group[-1].object_id, all(row.ss_status is SendStatus.SS_ACK for row in group))
        for group in groups.values()
    ]


def _rows_of(tables: Tables, unit: Unit, query: u.Query) -> Iterable[Any]:
    match query:
        case u.Unsent():
            return _unsent(tables, unit, query)
        case u.Unsettled(first, last, limit):
            rows = _outbound(tables, lambda r: r.outcome is None and r.ss_status > SendStatus.SS_INIT)
            return [copy_outbound(r) for r in rows if first <= r.object_id <= last][:limit]
        case u.ExpiredRows(now, limit):
            rows = _outbound(tables, lambda r: r.outcome is None and not r.void and 0 < r.expires_at <= now)
            own = (r for r in rows if r.direction is Direction.OWN)
            must, unsent = SaveFwd.MUST, SendStatus.SS_INIT
            return [copy_outbound(r) for r in own if r.save_fwd is must or r.ss_status is unsent][:limit]
        case u.Unfinished(first, last, limit):
            return [copy_pending(r) for r in _pending(tables) if not r.is_removable and first <= r.bref <= last][:limit]
        case u.Waiting() | u.InboxTracks():
            return _waiting(tables, unit, query)
        case u.FirstInOrder(store, order_key):
            key = (store, order_key)
            in_order = (r for r in _pending(tables) if (str(r.lk0.store), r.order_key) == key)
            new = [r for r in in_order if r.app_status is AppStatus.NEW]
            return [copy_pending(min(new, key=lambda r: r.lk0.object_id))] if new else []
        case u.StreamsTo(dest):
            return [copy_out_stream(stream) for key, stream in tables.out_streams.items() if key.dest == dest]
        case (
            u.SubmittedRows() | u.RefusedSubmissions() | u.OpenSubmission() | u.TokenSubmissions() | u.DueSubmissions()
        ):
            return list(submissions.find(tables, query))
        case u.DoneRows(limit):
            return list(tables.done.items())[:limit]
        case u.RefusedBy(dest, code, after, limit):
            rows = _outbound(tables, lambda r: r.outcome is Outcome.REJECTED and r.has_payload and r.dest == dest)
            later = (r for r in rows if r.object_id > after and r.reason and r.reason[0] == code)
            return [copy_outbound(r) for r in later][:limit]
        case u.KeptKeys(peer, limit):
            kept = [row for row in tables.rare_rows if isinstance(row, KeptKey) and row.peer == peer]
            return kept[::-1][:limit]
        case _:
            assert_never(query)


def _outbound(tables: Tables, wanted: Callable[[Outbound], bool]) -> Iterator[Outbound]:
    return (tables.outbound[i] for i in sorted(tables.outbound) if wanted(tables.outbound[i]))


def _pending(tables: Tables) -> Iterator[Pending]:
    return (tables.pending[i] for i in sorted(tables.pending))


def _unsent(tables: Tables, unit: Unit, query: u.Unsent) -> Iterator[Outbound]:
    rows_left, bytes_left, track = query.limit, query.payloads_bytes_max, (query.dest, query.source, query.priority)
    for row in _outbound(tables, lambda r: r.ss_status is SendStatus.SS_INIT and r.outcome is None and not r.held):
        if rows_left <= 0 or bytes_left <= 0:
            return
        if (row.dest, row.source, row.priority) == track and row.object_id > query.after:
            unit.bodies.setdefault(row.object_id, tables.bodies[row.object_id])
            rows_left -= 1
            bytes_left -= row.size
            yield copy_outbound(row)


def _waiting(tables: Tables, unit: Unit, query: u.Waiting | u.InboxTracks) -> list[Any]:
    if isinstance(query, u.InboxTracks):
        return sorted({(r.source, r.priority) for r in _pending(tables) if r.target.user == query.user})
    track = query.user, query.source, query.priority
    new = (r for r in _pending(tables) if r.app_status is AppStatus.NEW and r.bref > query.after)
    rows: list[Pending] = []
    for row in new:
        if not query.is_cut(rows) and (row.target.user, row.source, row.priority) == track:
            rows.append(copy_pending(row))
    unit.pending_bodies.update((row.bref, tables.pending_bodies[row.bref]) for row in rows)
    return rows


def _stream_states(tables: Tables) -> Iterator[StreamState]:
    unsettled: dict[OutStreamKey, set[int]] = {key: set() for key in tables.out_streams}
    for row in tables.outbound.values():
        if row.direction is Direction.OWN and row.sid >= 0 and row.outcome is None:
            unsettled[OutStreamKey(row.dest, row.lk0.inc)].add(row.sid)
    for key, sids in unsettled.items():
        next_sid = tables.out_streams[key].next_sid
        floor = min(sids, default=next_sid)
        yield StreamState(key, next_sid, floor, set(range(floor, next_sid)) - sids)


# ------------------------------------------------------------------------------------------------------- writing


def apply(tables: Tables, unit: Unit) -> None:
    """Write the staged changes of a unit. Called after ``check``."""
    _apply_outbound(tables, unit)
    tables.tokens.update(unit.new_tokens)
    if unit.cancelled_tokens:
        tables.tokens |= {token: row for token, row in unit.cancelled_tokens.items() if token not in tables.tokens}
    for stream in unit.changed_out_streams:
        tables.out_streams[stream] = copy_out_stream(unit.out_streams[stream])
    for key in unit.changed_last_pos:
        tables.last_pos[key] = unit.last_pos[key]
    _apply_receipts(tables, unit)
    if submissions.has_changes(unit):
        submissions.change(tables, unit)
    for bref in unit.taken_done:
        tables.done.pop(bref, None)
    tables.ledger += unit.ledger
    tables.broker += unit.broker
    if unit.rare_changes:
        certified = {row.node for row in unit.rare_changes if isinstance(row, Certificates)}
        replaced = [row for row in tables.rare_rows if isinstance(row, Certificates) and row.node in certified]
        tables.rare_rows = [row for row in tables.rare_rows if row not in replaced]
        tables.rare_rows += [row for row in dict.fromkeys(unit.rare_changes) if row not in tables.rare_rows]


def _apply_outbound(tables: Tables, unit: Unit) -> None:
    for object_id in unit.deleted_outbound:
        row = tables.outbound.pop(object_id, None)
        tables.bodies.pop(object_id, None)
        if row is not None and row.direction is Direction.RELAYED:
            tables.relayed.pop(str(row.lk0), None)
    for row in unit.new_outbound.values():
        if row.direction is Direction.RELAYED:
            tables.relayed[str(row.lk0)] = row.object_id
    for object_id in (*unit.new_outbound, *unit.changed_outbound):
        tables.outbound[object_id] = copy_outbound(unit.outbound[object_id])
    tables.bodies.update(unit.new_bodies)
    for object_id, envelope in unit.new_envelopes.items():
        tables.bodies[object_id] = Stored(envelope, tables.bodies[object_id].payload)
    for object_id in unit.dropped_bodies:
        if object_id in tables.bodies:
            tables.bodies[object_id] = Stored(tables.bodies[object_id].envelope, b"")


def _apply_receipts(tables: Tables, unit: Unit) -> None:
    for key in unit.changed_in_streams:
        tables.in_streams[key] = copy_in_stream(unit.in_streams[key])
    tables.recorded.update(unit.new_recorded)
    for key in unit.raised_floors:
        floor = unit.in_streams[key].floor
        for slot in [slot for slot in tables.recorded if slot.stream == key and slot.sid < floor]:
            del tables.recorded[slot]
    for lk0, entry in unit.new_seen.items():
        tables.seen[str(lk0)] = entry
    while len(tables.seen) > SEEN_MAX:
        del tables.seen[next(iter(tables.seen))]
    for bref, row in unit.new_pending.items():
        tables.pending[bref] = copy_pending(row)
    tables.pending_bodies.update(unit.new_pending_bodies)
    _change(tables, unit.platform_acked, "p_ack_status", _acked)
    _change(tables, unit.sender_acked, "s_ack_status", _acked)
    _change(tables, unit.given, "deliveries", lambda row: row.deliveries + 1)
    _change(tables, unit.taken_back, "deliveries", lambda row: row.deliveries - 1)
    _change(tables, unit.changed_app_status, "app_status", lambda row: unit.changed_app_status[row.bref])
    for bref in unit.deleted_pending:
        tables.pending.pop(bref, None)
        tables.pending_bodies.pop(bref, None)


def _acked(row: Pending) -> AckStatus:
    return AckStatus.AS_ACK


def _change(tables: Tables, brefs: Iterable[int], column: str, value: Callable[[Pending], Any]) -> None:
    for bref in brefs:
        if bref in tables.pending:
            row = copy_pending(tables.pending[bref])
            setattr(row, column, value(row))
            tables.pending[bref] = row
