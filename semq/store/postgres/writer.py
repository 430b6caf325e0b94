"""The writer of a store (group commit): collects posted work into units, each one transaction.

While one unit is committed, work for the next is queued, so units grow with the load.

| event                               | consequence for the work                                                     |
|-------------------------------------|------------------------------------------------------------------------------|
| ``decide`` raises                   | only that piece fails; the earlier pieces of the unit decide again           |
| a loaded row cannot be converted    | likewise, each piece in a unit of its own                                    |
| a row is refused, or has changed    | each piece gets a unit of its own, or each of its parts (``Work.divide``)    |
| connection lost, COMMIT unanswered  | all work fails, also waiting work; ``lost`` is called once                   |
| another process took the store over | all work fails likewise, with StoreFenced                                    |
"""

import asyncio
import logging
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count, islice
from typing import ParamSpec, TypeVar

import psycopg
from psycopg.adapt import Buffer
from psycopg.pq.abc import PGresult

from semq.answers.status import WriterCounters
from semq.errors import SemqError
from semq.store.postgres.chain import Chain, params
from semq.store.postgres.changes import (
    LEDGER,
    Batch,
    NewRows,
    copies,
    inserts,
    is_bulky,
    is_read_only,
    nothing_stored,
    packed_lines,
    statements_and_rows,
    use_stored_bodies,
)
from semq.store.postgres.conversion.binary import int8
from semq.store.postgres.errors import DecisionFailed, RowRefused, StoreFenced, StoreUnavailable
from semq.store.postgres.lease import RENEW_S, VALID_S, Lease
from semq.store.postgres.load import Load
from semq.store.postgres.locked_bodies import Locking
from semq.store.postgres.pipeline import PipelineWire, StatementRefused
from semq.store.postgres.refusals import blames_one_piece, typed_error
from semq.store.postgres.statements import FENCED
from semq.store.recent_rows import RecentRows
from semq.store.rows import LedgerLine
from semq.store.unit import Unit
from semq.store.work import LATER_S, Work, begin_attempts

OnLines = Callable[[Sequence[LedgerLine]], None]
P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

# Limits of one unit
ROWS_MAX = 2000  # new bodies and operations of the broker
BYTES_MAX = 16 * 1024 * 1024  # of new bodies
WORKS_MAX = 1000  # pieces of work
KEYS_MAX = 4000  # keys in the needs of the work
TURN_S = 0.01  # time of deciding or notifying after which other tasks run
COPY_FROM = 24  # new rows of a unit that is written by COPY, which costs a second round trip


class Writer:
    """The writer of one connection and its lease, until it is stopped or the connection is lost."""

    def __init__(
        self,
        wire: PipelineWire,
        lease: Lease,
        line_numbers: "count[int]",
        counters: WriterCounters,
        chain: Chain,
        locking: Locking,
        lost: Callable[[SemqError], None],
        after_unit: Callable[[], None] = lambda: None,
        on_lines: OnLines | None = None,
        stored_key: Callable[[str, bytes], int | None] = nothing_stored,
        refused: Callable[[RowRefused], None] = lambda error: None,
    ) -> None:
        """``on_lines`` gets the ledger lines of each commit. ``stored_key(table, payload)`` returns the key of a stored
        body; None: it is not stored. ``refused`` gets the refusal of each row."""
        self._stored_key = stored_key
        self._note_refused = refused
        self._wire = wire
        self._epoch = int8(lease.epoch)
        self._line_numbers = line_numbers
        self._counters = counters
        self._chain = chain
        self._locking = locking
        self._lost = lost
        self._after_unit = after_unit
        self._on_lines = on_lines
        self._recent = RecentRows()
        self._queue: deque[Work] = deque()
        self._under_way: Sequence[Work] = ()
        self._alone = 0  # number of pieces at the front of the queue that get a unit each
        self._renew_at = time.monotonic() + RENEW_S
        self._ready = asyncio.Event()
        self._is_due = False  # False: queued work still waits for more
        self._later: asyncio.TimerHandle | None = None
        self._in_transaction = self._stopping = False
        self._fault: SemqError | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="store-writer")

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def post(self, work: Work, *, later: bool = False) -> None:
        """Queue work in order; if ``later``, it may wait LATER_S for more work.

        After a loss or a stop, the work fails in the loop's next turn.
        """
        if self._fault is not None or self._stopping:
            error = self._fault or StoreUnavailable("The store is being closed.")
            asyncio.get_running_loop().call_soon(_notify_failed, work, error)
            return
        self._queue.append(work)
        if not later or len(self._queue) >= WORKS_MAX:
            self._make_due()
        elif not self._is_due and self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATER_S, self._make_due)

    def _make_due(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._queue:
            self._is_due = True
            self._ready.set()

    async def stop(self) -> None:
        """Finish the queued work; the connection stays open."""
        self._stopping = True
        self._ready.set()
        await self._task

    @property
    def is_idle(self) -> bool:
        return not (self._queue or self._under_way or self._in_transaction or self._fault or self._stopping)

    async def rest(self, lease_s: float) -> bool:
        """Stop, and renew the lease for ``lease_s`` seconds, at least VALID_S; return whether this succeeded."""
        await self.stop()
        if self._fault is not None:
            return False
        valid_ms = int8(int(max(lease_s, VALID_S) * 1000))
        try:
            await self._wire.send([("renew", (self._epoch, valid_ms))])
        except (StatementRefused, StoreUnavailable):
            return False  # the next opening reports the reason
        return True

    def lose(self, fault: SemqError) -> None:
        """End immediately: all work fails."""
        if self._fault is None:
            self._fault = fault
            self._ready.set()

    # -------------------------------------------------------------------------------------------------- the loop

    async def _run(self) -> None:
        try:
            await self._process_queue()
        except Exception as error:
            log.exception("The writer of the store ended with an unexpected error.")
            self.lose(StoreUnavailable(fault=repr(error)))
        if self._fault is not None:
            self._fail_all(self._fault)
            self._lost(self._fault)

    async def _process_queue(self) -> None:
        while self._fault is None:
            if self._queue and (self._is_due or self._stopping):
                works = self._next_works()
                self._is_due = bool(self._queue)
                await self._process_unit(works)
            elif self._stopping:
                return
            else:
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        self._ready.clear()
        timer = asyncio.get_running_loop().call_later(self._renew_at - time.monotonic(), self._ready.set)
        try:
            await self._ready.wait()
        finally:
            timer.cancel()
        if time.monotonic() >= self._renew_at and self._fault is None:
            if self._queue:
                self._make_due()  # its unit renews the lease
            else:
                await self._renew()

    def _next_works(self) -> list[Work]:
        if self._alone:
            self._alone -= 1
            return [self._queue.popleft()]
        queue, works = self._queue, [self._queue.popleft()]
        keys = len(works[0].needs) if queue else 0
        while queue and len(works) < WORKS_MAX and (keys := keys + len(queue[0].needs)) <= KEYS_MAX:
            works.append(queue.popleft())
        return works

    def _put_back(self, works: Sequence[Work]) -> None:
        if works:
            self._queue.extendleft(reversed(works))
            self._make_due()

    # -------------------------------------------------------------------------------------------------- one unit

    async def _process_unit(self, works: list[Work]) -> None:
        self._under_way = works
        try:
            unit, works = await self._load_and_decide(works)
            if works:
                await self._finish(unit, works)
        except StatementRefused as refusal:
            self._refused(works, refusal)
        except StoreUnavailable as error:
            self.lose(error)

    async def _load_and_decide(self, works: list[Work]) -> tuple[Unit, list[Work]]:
        """Return the decided unit, and the works in it: without those that failed or exceed the unit."""
        while True:
            unit = await self._load(works)
            started = time.perf_counter()
            done, error = await self._decide(works, unit)
            self._counters.decide_s += time.perf_counter() - started
            if error is None:
                self._put_back(works[done:])
                self._under_way = works = works[:done]
                return unit, works
            bad, before, after = works[done], works[:done], works[done + 1 :]
            self._counters.failed += 1
            # The pieces after the bad one decide in the next unit.
            if before:
                self._put_back(after)
                after = []
            self._under_way = works = before or after
            _notify_failed(bad, error)
            if not works:
                return unit, works

    async def _load(self, works: list[Work]) -> Unit:
        started = time.perf_counter()
        load = _packing(Load, begin_attempts(works), self._recent)
        unit = self._converted(load, await self._wire.send(load.batch) if load.batch else [])
        self._counters.load_s += time.perf_counter() - started
        return unit

    def _converted(self, load: Load, results: Sequence[PGresult]) -> Unit:
        """Return the loaded rows. Raises StatementRefused if one cannot be converted, also by a newly opened store."""
        try:
            unit = load.unit(self._wire, results)
            self._locking.unlock_unit(unit)
        except Exception as error:
            log.exception("A row cannot be read.")
            raise StatementRefused("22000", f"A row cannot be read: {error!r}") from error
        return unit

    async def _decide(self, works: list[Work], unit: Unit) -> tuple[int, SemqError | None]:
        """Let the pieces decide in order; return the number of those that have decided, and the error of the next one
        (None: all have decided, or the unit is full)."""
        size, turns = _Size(), _Turns()
        for number, work in enumerate(works):
            if work.is_wait:
                continue
            if turns.is_over():
                await asyncio.sleep(0)
            try:
                work.decide(unit)
            except SemqError as error:
                # The frames of the traceback would keep the works in memory.
                return number, error.with_traceback(None)
            except Exception as error:
                log.exception("A decision ended with an unexpected error.")
                return number, DecisionFailed(fault=repr(error))
            if number + 1 < len(works) and size.add_new(unit):
                return number + 1, None
        return len(works), None

    async def _finish(self, unit: Unit, works: list[Work]) -> None:
        counters = self._counters
        started = time.perf_counter()
        if not is_read_only(unit):
            batch, rows = self._locked_changes(unit)
            lines = _packing(packed_lines, rows, self._wire.packer)
            links = self._chain.changed_links(rows.get(LEDGER, ()), lines)
            await self._commit([("chain", [*params(link), self._epoch]) for link in links] + batch, rows, lines)
            self._chain.head = links[-1] if links else self._chain.head
            if self._on_lines is not None:
                _report_lines(self._on_lines, unit.ledger)
        else:
            counters.read_only += 1
        self._recent.note_commit(unit)
        written_at = time.perf_counter()
        counters.write_s += written_at - started
        counters.units += 1
        counters.works += len(works)
        counters.largest = max(counters.largest, len(works))
        self._under_way = ()
        turns = _Turns()
        for work in works:
            if turns.is_over():
                await asyncio.sleep(0)
            _notify_committed(work)
        self._after_unit()
        counters.report_s += time.perf_counter() - written_at

    async def _commit(self, batch: Batch, rows: NewRows, lines: Sequence[Buffer] = ()) -> None:
        """Write and commit. Raises StatementRefused (nothing was written), StoreUnavailable (the result is unknown).

        A batch without BEGIN is one transaction, which Postgres commits at its end.
        """
        packer, row_count = self._wire.packer, sum(map(len, rows.values()))
        self._counters.rows += row_count
        if row_count < COPY_FROM and not is_bulky(rows):
            await self._send_checked([], batch + _packing(inserts, rows, packer))
            return
        data = _packing(copies, rows, packer, lines)
        self._in_transaction = True
        await self._send_checked([("begin", ())], batch)
        self._counters.copied += row_count
        results = await self._wire.copy(*data)
        self._in_transaction = False
        if results[-1].command_status != b"COMMIT":
            raise StoreUnavailable("Postgres rolled back instead of committing.")

    async def _send_checked(self, before: Batch, batch: Batch) -> None:
        """Send a batch, and check the lease before its changes."""
        if time.monotonic() >= self._renew_at:
            self._renew_at = time.monotonic() + RENEW_S
            before = [*before, ("renew", (self._epoch, int8(int(VALID_S * 1000))))]
        elif not batch or batch[0][0] != "chain":  # which checks the lease, too
            before = [*before, ("lease", (self._epoch,))]
        try:
            await self._wire.send([*before, *batch])
        except StatementRefused as refusal:
            if refusal.place >= len(before) or refusal.sqlstate == FENCED:
                raise
            raise StoreUnavailable(sqlstate=refusal.sqlstate, fault=refusal.text) from refusal  # no row is to blame

    def _locked_changes(self, unit: Unit) -> tuple[Batch, NewRows]:
        """Return the statements and new rows of a unit, encrypted if the store has a master key."""
        batch, rows = _packing(statements_and_rows, unit, self._line_numbers)
        return self._locking.lock(batch + use_stored_bodies(rows, self._stored_key), rows), rows

    async def _renew(self) -> None:
        try:
            await self._commit([], {})
        except StatementRefused as refusal:
            self._refused([], refusal)
        except StoreUnavailable as error:
            self.lose(error)

    def _rollback(self) -> None:
        if self._in_transaction:
            self._wire.send_unawaited([("rollback", ())])
            self._in_transaction = False

    # -------------------------------------------------------------------------------------------------- failures

    def _refused(self, works: Sequence[Work], refusal: StatementRefused) -> None:
        """Fail a single piece, or give several pieces or parts a unit each. If no piece is to blame, call ``lose``."""
        works = self._under_way or works
        self._recent.clear()
        if refusal.sqlstate == FENCED:
            self.lose(StoreFenced())
        elif not works or not blames_one_piece(refusal):
            self.lose(StoreUnavailable(sqlstate=refusal.sqlstate, fault=refusal.text))
        else:
            self._rollback()
            self._under_way = ()
            if len(works) == 1 and works[0].divide is not None:
                works = works[0].divide()
            if len(works) > 1:
                self._put_back(works)
                self._alone += len(works)
                return
            self._counters.failed += 1
            error = typed_error(refusal)
            if isinstance(error, RowRefused) and not error.is_passing:
                self._note_refused(error)
            _notify_failed(works[0], error)

    def _fail_all(self, fault: SemqError) -> None:
        works = [*self._under_way, *self._queue]
        self._under_way = ()
        self._queue.clear()
        self._counters.failed += len(works)
        for work in works:
            _notify_failed(work, fault)


class _Turns:
    """The time limit of long synchronous work in one turn of the event loop: TURN_S."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + TURN_S

    def is_over(self) -> bool:
        now = time.perf_counter()
        if now < self._until:
            return False
        self._until = now + TURN_S
        return True


class _Size:
    """The number of new rows and bytes of a unit."""

    __slots__ = ("_bodies", "_broker", "_bytes", "_pending")

    def __init__(self) -> None:
        self._bodies = self._pending = self._bytes = self._broker = 0

    def add_new(self, unit: Unit) -> bool:
        """Count what the last piece has staged; return whether the unit is full."""
        bodies, pending = len(unit.new_bodies), len(unit.new_pending_bodies)
        for values, fresh in (
            (unit.new_bodies, bodies - self._bodies),
            (unit.new_pending_bodies, pending - self._pending),
        ):
            if fresh > 0:
                self._bytes += sum(len(body.payload) for body in islice(reversed(values.values()), fresh))
        self._bodies, self._pending = bodies, pending
        if len(unit.broker) > self._broker:
            fresh_ops = islice(unit.broker, self._broker, None)
            self._bytes += sum(len(getattr(op, "body", b"") or getattr(op, "data", b"")) for op in fresh_ops)
            self._broker = len(unit.broker)
        return bodies + pending + self._broker >= ROWS_MAX or self._bytes >= BYTES_MAX


def _packing(pack: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``pack``. Raises StatementRefused for an invalid value, as if Postgres had refused it."""
    try:
        return pack(*args, **kwargs)
    except (ValueError, OverflowError, TypeError, struct.error, psycopg.DataError) as error:
        raise StatementRefused("22000", f"Postgres cannot store this value: {error!r}") from error


def _notify_committed(work: Work) -> None:
    try:
        work.finish()
    except Exception:
        # The remaining work must still be notified.
        log.exception("An action after a commit ended with an error.")


def _report_lines(on_lines: OnLines, lines: Sequence[LedgerLine]) -> None:
    try:
        on_lines(lines)
    except Exception:
        log.exception("The lines of a commit could not be passed on.")


def _notify_failed(work: Work, error: Exception) -> None:
    try:
        work.abandon(error)
    except Exception:
        log.exception("An action after a failure ended with an error.")
