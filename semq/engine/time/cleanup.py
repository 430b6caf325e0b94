"""Cleanup: rows are deleted by their state, never by age (PROTOCOL.md S13, R9).

Most rows are deleted in the transaction in which their last condition is met. ``Cleaner`` deletes the others in
batches. For instance, rows of the sender that ended without a delivery stay for a moment, because a receipt may correct
the outcome (S5c).
"""

from collections.abc import Sequence
from functools import partial

from semq.engine.core import Core
from semq.engine.sender.endings import is_kept
from semq.store.postgres.errors import RowRefused
from semq.store.rows import Outbound, Pending
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.status import AppStatus

PIECES_BYTES = 8 << 20  # bytes of pieces that one commit deletes: other work waits about 20 ms for this commit
PIECES_PAUSE_S = 0.05  # between two such commits


def delete_if_done(core: Core, unit: Unit, row: Pending) -> bool:
    """R9: delete a row of tb_0030 if it is not needed any more, and return whether it was deleted."""
    must_stay = row.app_status is AppStatus.PARKED and core.settings.keep_parked
    if not row.is_removable or must_stay:
        return False
    unit.delete_pending(row)
    if row.target.user == PIECES_USER:
        core.pieces.remove(row)
    return True


class Cleaner:
    """Deletion of finished rows of one node, a batch at a time."""

    def __init__(self, core: Core, outbound: list[int], pending: list[int]) -> None:
        """``outbound``, ``pending``: ids of rows that have ended; other parts of the engine add to these lists."""
        self._core = core
        self._outbound = outbound
        self._pending = pending
        self._busy = False
        self._not_before = 0.0

    def tick(self) -> None:
        now = self._core.now()
        if self._busy or now < self._not_before or not (self._outbound or self._pending):
            return
        self._busy = True
        outbound, pending = self._next_batch(self._outbound), self._next_batch(self._pending)
        has_pieces = any(map(self._core.pieces.size_of, pending))
        pause_s = self._core.settings.cleanup_s
        self._not_before = now + (min(PIECES_PAUSE_S, pause_s) if has_pieces else pause_s)
        self._core.post(
            self._clean(outbound, pending), later=True, failed=partial(self._not_cleaned, outbound, pending)
        )

    @property
    def next_due(self) -> float | None:
        """When ``tick`` is due, in monotonic seconds; None if nothing is to be deleted."""
        return self._not_before if not self._busy and (self._outbound or self._pending) else None

    def _next_batch(self, ids: list[int]) -> list[int]:
        """Remove and return the next ids, within the bounds of one commit."""
        limit, pieces = 0, 0
        while limit < min(self._core.settings.clean_rows, len(ids)) and pieces < PIECES_BYTES:
            pieces += self._core.pieces.size_of(ids[limit])
            limit += 1
        batch = ids[:limit]
        del ids[:limit]
        return batch

    def _not_cleaned(self, outbound: list[int], pending: list[int], error: Exception) -> None:
        """Try again later. If Postgres refuses a row, delete each alone; a row that it refuses alone stays."""
        self._busy = False
        if isinstance(error, RowRefused):
            self._core.post_each(outbound, lambda ids: self._clean(ids, ()), later=True)
            self._core.post_each(pending, lambda ids: self._clean((), ids), later=True)
            return
        self._outbound.extend(outbound)
        self._pending.extend(pending)

    @work
    def _clean(self, outbound: Sequence[int], pending: Sequence[int]) -> Steps:
        unit = yield Needs(outbound=set(outbound), pending=set(pending))
        found = (unit.outbound.get(object_id) for object_id in outbound)
        ended = [row for row in found if row is not None and row.outcome is not None and not self._is_kept(row)]
        for row in ended:
            unit.delete_outbound(row)
        done = (unit.pending.get(bref) for bref in pending)
        deleted = [delete_if_done(self._core, unit, received) for received in done if received is not None]
        yield COMMITTED
        self._busy = False
        self._core.count("cleaned", len(ended) + sum(deleted))

    def _is_kept(self, row: Outbound) -> bool:
        return is_kept(row) and self._core.settings.keep_rejected
