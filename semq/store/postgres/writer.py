"""The writer of a store: gathers all posted work into one transaction, commits it, then tells each piece (group
commit).

A node opens it, hands it to its engine as ``WorkStore``, and opens it anew when it was lost. While one unit commits,
the next is gathered by itself: units are small when little is going on and grow under load. Work that nobody waits for
(``later``) shares the next unit that somebody waits for, or gets one of its own after ``LATER_S``. What a unit reads
and writes is made by ``load`` and ``changes``; the connection is ``pipeline``; opening and closing
are in ``postgres``.

| what happens                        | what becomes of the work                                                     |
|-------------------------------------|------------------------------------------------------------------------------|
| ``decide`` raises                   | that piece alone has failed; the unit is decided again without it            |
| Postgres refuses a row, or is stale | each piece gets a unit of its own, so that one bad piece harms no other      |
| connection lost, COMMIT unanswered  | all of it, and all that waits, has failed; ``lost`` is called once           |
| another process took the store over | the same, with StoreFenced                                                   |
"""

import asyncio
import logging
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import ParamSpec, TypeVar

import psycopg
from psycopg.adapt import Buffer

from semq.errors import SemqError
from semq.store.postgres.binary import int8
from semq.store.postgres.chain import Chain, params
from semq.store.postgres.changes import LEDGER, Batch, NewRows, copies, inserts, is_read_only, packed_lines, written
from semq.store.postgres.errors import DecisionFailed, RowRefused, StaleRow, StoreFenced, StoreUnavailable
from semq.store.postgres.lease import RENEW_S, VALID_S, Lease
from semq.store.postgres.load import Load
from semq.store.postgres.locked_bodies import Locking
from semq.store.postgres.pipeline import Refusal, Wire
from semq.store.postgres.statements import FENCED, STALE
from semq.store.unit import Unit, Work, need

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)

ROWS_MAX = 2000  # new rows of tb_0031 and tb_0030 in one unit
BYTES_MAX = 16 * 1024 * 1024  # of payload in one unit
WORKS_MAX = 1000
LATER_S = 0.04  # so long may work wait that nobody waits for
KEYS_MAX = 4000  # that the work of one unit names: what it may have to load and look at
TURN_S = 0.01  # how long deciding and telling may hold the event loop before others have a turn
COPY_FROM = 10  # so many new rows pay for the round trips of COPY
BULKY = 256 * 1024  # octets of one body
BODIES = (
    ("tb_0031_body", 2),
    ("tb_0030_body", 2),
    ("broker_body", 2),
    ("broker_message", 8),
)  # table, place in its row

# Classes of SQLSTATE for which one piece of work is to blame, or chance: data, constraints, deadlocks, locks, our own.
ONE_TO_BLAME = ("22", "23", "40", "55", "SQ")


@dataclass(slots=True)
class Counters:
    """What the writer has done since it was made; seconds are of waiting and working together."""

    units: int = 0
    read_only: int = 0
    works: int = 0
    failed: int = 0
    rows: int = 0
    copied: int = 0
    load_s: float = 0.0
    decide_s: float = 0.0
    write_s: float = 0.0
    tell_s: float = 0.0
    largest: int = field(default=0)


class Writer:
    """One life of a store: from an open connection with its lease until it is stopped or lost."""

    def __init__(
        self,
        wire: Wire,
        lease: Lease,
        line_numbers: "count[int]",
        counters: Counters,
        chain: Chain,
        locking: Locking,
        lost: Callable[[SemqError], None],
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._wire = wire
        self._lease = lease
        self._epoch = int8(lease.epoch)
        self._line_numbers = line_numbers
        self._counters = counters
        self._chain = chain
        self._locking = locking
        self._lost = lost
        self._told = told
        self._queue: deque[Work] = deque()
        self._under_way: Sequence[Work] = ()
        self._alone = 0  # so many pieces get a unit each, after one of them was refused
        self._renew_at = time.monotonic() + RENEW_S
        self._wake = asyncio.Event()
        self._is_due = False  # something in the queue is to be done now, so all before it is
        self._later: asyncio.TimerHandle | None = None  # from when on the rest is
        self._in_transaction = False
        self._stopping = False
        self._fault: SemqError | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name="store-writer")

    @property
    def waiting(self) -> int:
        """How many pieces of work have not begun."""
        return len(self._queue)

    def post(self, work: Work, *, later: bool = False) -> None:
        """Queue a piece of work; posted order is kept. After a loss it fails, on the next turn of the loop."""
        if self._fault is not None or self._stopping:
            error = self._fault or StoreUnavailable("The store is being closed.")
            asyncio.get_running_loop().call_soon(_tell_failed, work, error)
            return
        self._queue.append(work)
        if not later or len(self._queue) >= WORKS_MAX:
            self._due()
        elif not self._is_due and self._later is None:
            self._later = asyncio.get_running_loop().call_later(LATER_S, self._due)

    def _due(self) -> None:
        """What is queued is done now; where nothing is queued, the next work gets a timer of its own."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if self._queue:
            self._is_due = True
            self._wake.set()

    async def stop(self) -> None:
        """Finish what is queued, then end; the connection stays open."""
        self._stopping = True
        self._wake.set()
        await self._task

    def lose(self, fault: SemqError) -> None:
        """End at once: nothing more is written, all work fails. Called once by whatever breaks first."""
        if self._fault is None:
            self._fault = fault
            self._wake.set()

    # -------------------------------------------------------------------------------------------------- the loop

    async def _run(self) -> None:
        try:
            await self._work_off()
        except Exception as error:
            log.exception("The writer of the store ended with an unforeseen error.")
            self.lose(StoreUnavailable(fault=repr(error)))
        if self._fault is not None:
            self._fail_all(self._fault)
            self._lost(self._fault)

    async def _work_off(self) -> None:
        while self._fault is None:
            if self._queue and (self._is_due or self._stopping):
                works = self._take()
                self._is_due = bool(self._queue)
                await self._unit(works)
            elif self._stopping:
                return
            else:
                await self._rest()

    async def _rest(self) -> None:
        """Wait for work, or until the lease is to be renewed."""
        self._wake.clear()
        timer = asyncio.get_running_loop().call_at(
            asyncio.get_running_loop().time() + self._renew_at - time.monotonic(), self._wake.set
        )
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
        if time.monotonic() >= self._renew_at and self._fault is None:
            if self._queue:
                self._due()  # its unit renews the lease
            else:
                await self._renew()

    def _take(self) -> list[Work]:
        if self._alone:
            self._alone -= 1
            return [self._queue.popleft()]
        queue, works = self._queue, [self._queue.popleft()]
        keys = len(works[0].needs)
        while queue and len(works) < WORKS_MAX and (keys := keys + len(queue[0].needs)) <= KEYS_MAX:
            works.append(queue.popleft())
        return works

    def _put_back(self, works: Sequence[Work]) -> None:
        if works:
            self._queue.extendleft(reversed(works))
            self._due()

    # -------------------------------------------------------------------------------------------------- one unit

    async def _unit(self, works: list[Work]) -> None:
        self._under_way = works
        try:
            unit, works = await self._decided(works)
            if works:
                await self._finish(unit, works)
        except Refusal as refusal:
            self._refused(works, refusal)
        except StoreUnavailable as error:
            self.lose(error)

    async def _decided(self, works: list[Work]) -> tuple[Unit, list[Work]]:
        """Load and decide, without the pieces that refuse; the rest goes back to the head of the queue."""
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
            # What was decided before the bad piece is committed as it stands, what follows comes next: each piece is
            # decided at most twice, however many refuse.
            if before:
                self._put_back(after)
                after = []
            self._under_way = works = before or after
            _tell_failed(bad, error)
            if not works:
                self._rollback()
                return unit, works

    async def _load(self, works: list[Work]) -> Unit:
        started = time.perf_counter()
        load = _packing(Load, works[0].needs if len(works) == 1 else need(works))
        unit = Unit()
        if load.batch:
            begin = self._begin()
            results = await self._wire.send([*begin, *load.batch])
            unit = load.unit(self._wire, results[len(begin) :])
            self._locking.unlock_unit(unit)
        self._counters.load_s += time.perf_counter() - started
        return unit

    async def _decide(self, works: list[Work], unit: Unit) -> tuple[int, SemqError | None]:
        """Let each decide, in order; how many did, and why the next one did not (no reason: the unit is full)."""
        size, turns = _Size(), _Turns()
        for number, work in enumerate(works):
            if turns.is_over():
                await asyncio.sleep(0)
            try:
                work.decide(unit)
            except SemqError as error:
                # Without the frames it came through: they refer to the works, and our caller's to the error.
                return number, error.with_traceback(None)
            except Exception as error:
                log.exception("A decision ended with an unforeseen error.")
                return number, DecisionFailed(fault=repr(error))
            if size.is_full(unit):
                return number + 1, None
        return len(works), None

    async def _finish(self, unit: Unit, works: list[Work]) -> None:
        counters = self._counters
        started = time.perf_counter()
        if not is_read_only(unit):
            batch, rows = self._written(unit)
            lines = _packing(packed_lines, rows, self._wire.packer)
            links = self._chain.extended(rows.get(LEDGER, ()), lines)
            await self._commit([*batch, *(("chain", params(link)) for link in links)], rows, lines)
            self._chain.head = links[-1] if links else self._chain.head
        elif self._in_transaction:
            self._wire.send_forgetting([("commit", ())])  # nothing depends on it
            self._in_transaction = False
            counters.read_only += 1
        told = time.perf_counter()
        counters.write_s += told - started
        counters.units += 1
        counters.works += len(works)
        counters.largest = max(counters.largest, len(works))
        self._under_way = ()
        turns = _Turns()
        for work in works:
            if turns.is_over():
                await asyncio.sleep(0)
            _tell_committed(work)
        self._told()
        counters.tell_s += time.perf_counter() - told

    async def _commit(self, batch: Batch, rows: NewRows, lines: Sequence[Buffer] = ()) -> None:
        """Write and commit. Raises Refusal if nothing was written, StoreUnavailable if that is not known."""
        packer, many = self._wire.packer, sum(map(len, rows.values()))
        self._counters.rows += many
        if many < COPY_FROM and not _is_bulky(rows):
            last = [*_packing(inserts, rows, packer), ("commit", ())]
            results = await self._wire.send([*self._begin(), self._lease_check(), *batch, *last])
        else:
            data = _packing(copies, rows, packer, lines)
            await self._wire.send([*self._begin(), self._lease_check(), *batch])
            self._counters.copied += many
            results = await self._wire.copy(*data)
        self._in_transaction = False
        if results[-1].command_status != b"COMMIT":
            raise StoreUnavailable("Postgres rolled back where it should have committed.")

    def _written(self, unit: Unit) -> tuple[Batch, NewRows]:
        batch, rows = _packing(written, unit, self._line_numbers)
        return self._locking.lock(batch, rows), rows

    async def _renew(self) -> None:
        try:
            await self._commit([], {})
        except Refusal as refusal:
            self._refused([], refusal)
        except StoreUnavailable as error:
            self.lose(error)

    def _begin(self) -> Batch:
        if self._in_transaction:
            return []
        self._in_transaction = True
        return [("begin", ())]

    def _rollback(self) -> None:
        if self._in_transaction:
            self._wire.send_forgetting([("rollback", ())])
            self._in_transaction = False

    def _lease_check(self) -> tuple[str, Sequence[bytes]]:
        now = time.monotonic()
        if now < self._renew_at:
            return "lease", (self._epoch,)
        self._renew_at = now + RENEW_S
        return "renew", (self._epoch, int8(int(VALID_S * 1000)))

    # -------------------------------------------------------------------------------------------------- what fails

    def _refused(self, works: Sequence[Work], refusal: Refusal) -> None:
        """Nothing was written. One piece is to blame: alone, it fails; among others, each gets a unit of its own."""
        works = self._under_way or works
        if refusal.sqlstate == FENCED:
            self.lose(StoreFenced())
        elif refusal.sqlstate[:2] not in ONE_TO_BLAME:
            self.lose(StoreUnavailable(sqlstate=refusal.sqlstate, fault=refusal.text))
        else:
            self._rollback()
            self._under_way = ()
            if len(works) > 1:
                self._put_back(works)
                self._alone = max(self._alone, len(works))
            for work in works if len(works) == 1 else ():
                self._counters.failed += 1
                _tell_failed(work, _typed(refusal))

    def _fail_all(self, fault: SemqError) -> None:
        works = [*self._under_way, *self._queue]
        self._under_way = ()
        self._queue.clear()
        self._counters.failed += len(works)
        for work in works:
            _tell_failed(work, fault)


class _Turns:
    """Cuts long synchronous work into turns, so that sockets and timers of others are not kept waiting."""

    __slots__ = ("_until",)

    def __init__(self) -> None:
        self._until = time.perf_counter() + TURN_S

    def is_over(self) -> bool:
        """Whether the turn has lasted long enough; the next one begins."""
        now = time.perf_counter()
        if now < self._until:
            return False
        self._until = now + TURN_S
        return True


class _Size:
    """How much a unit writes, watched while it grows: one look at two dictionaries for each piece of work."""

    __slots__ = ("_bodies", "_broker", "_octets", "_pending")

    def __init__(self) -> None:
        self._bodies = self._pending = self._octets = self._broker = 0

    def is_full(self, unit: Unit) -> bool:
        """Whether the unit should be written before more is decided."""
        bodies, pending = len(unit.new_bodies), len(unit.new_pending_bodies)
        for values, fresh in (
            (unit.new_bodies, bodies - self._bodies),
            (unit.new_pending_bodies, pending - self._pending),
        ):
            if fresh > 0:
                self._octets += sum(len(body.payload) for body in islice(reversed(values.values()), fresh))
        self._bodies, self._pending = bodies, pending
        if len(unit.broker) > self._broker:
            fresh_ops = islice(unit.broker, self._broker, None)
            self._octets += sum(len(getattr(op, "body", b"") or getattr(op, "data", b"")) for op in fresh_ops)
            self._broker = len(unit.broker)
        return bodies + pending + self._broker >= ROWS_MAX or self._octets >= BYTES_MAX


def _packing(pack: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Make statements of values; what cannot be one is refused as Postgres would have refused it. Raises Refusal."""
    try:
        return pack(*args, **kwargs)
    except (ValueError, OverflowError, TypeError, struct.error, psycopg.DataError) as error:
        raise Refusal("22000", f"This is no value for Postgres: {error!r}") from error


def _is_bulky(rows: NewRows) -> bool:
    """Whether a few rows hold so much that they should go piece by piece: by COPY."""
    return any(len(row[place]) >= BULKY for table, place in BODIES for row in rows.get(table, ()))


def _typed(refusal: Refusal) -> SemqError:
    if refusal.sqlstate == STALE:
        return StaleRow(fault=refusal.text)
    return RowRefused(sqlstate=refusal.sqlstate, fault=refusal.text, table=refusal.table, constraint=refusal.constraint)


def _tell_committed(work: Work) -> None:
    try:
        work.committed()
    except Exception:
        # It is durable whatever the listener does; the others must still hear of theirs.
        log.exception("What follows a commit ended with an error.")


def _tell_failed(work: Work, error: Exception) -> None:
    try:
        work.failed(error)
    except Exception:
        log.exception("What follows a failure ended with an error.")
