"""Cleanup: rows are deleted when their state says that they are not needed, never by age (seed 3.3; PROTOCOL.md S13,
R9).

A row is deleted in the transaction in which its last condition is met: at the sender when it is delivered, at the
receiver by ``leave``. A row that ended otherwise stays for a moment, since a receipt may correct it (S5c). ``Cleaner``
takes such rows, and those that the store names after a restart, and deletes them in batches while messages pass.
"""

from semq.engine.core import Core
from semq.engine.sender.refused_copies import is_kept
from semq.store.rows import Outbound, Pending
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.status import AppStatus

PIECES_BYTES = 8 << 20  # bytes of pieces that one commit deletes: other work waits for this some 20 ms
PIECES_PAUSE_S = 0.05  # between two such commits


def leave(core: Core, unit: Unit, row: Pending) -> bool:
    """R9: delete a row of tb_0030 that is not needed any more, and return whether it was deleted. Called by each piece
    of work that may fulfil the last condition."""
    is_kept = row.app_status is AppStatus.PARKED and core.settings.keep_parked
    if not row.is_removable or is_kept:
        return False
    unit.delete_pending(row)
    if row.target.user == PIECES_USER:
        core.pieces.remove(row)
    return True


class Cleaner:
    """Deletion of finished rows of one node, a batch at a time."""

    def __init__(self, core: Core, outbound: list[int], pending: list[int]) -> None:
        """``outbound`` and ``pending``: ids of rows that have ended, added by others."""
        self._core = core
        self._outbound = outbound
        self._pending = pending
        self._busy = False
        self._not_before = 0.0

    def tick(self) -> None:
        """Delete the next batch if there is one."""
        now = self._core.now()
        if self._busy or now < self._not_before or not (self._outbound or self._pending):
            return
        self._busy = True
        outbound, pending = self._taken(self._outbound), self._taken(self._pending)
        has_pieces = any(map(self._core.pieces.size_of, pending))
        pause_s = self._core.settings.cleanup_s
        self._not_before = now + (min(PIECES_PAUSE_S, pause_s) if has_pieces else pause_s)
        self._core.post(
            self._clean(outbound, pending), later=True, failed=lambda error: self._put_back(outbound, pending)
        )

    @property
    def next_due(self) -> float | None:
        """The time at which ``tick`` is due, or None."""
        return self._not_before if not self._busy and (self._outbound or self._pending) else None

    def _taken(self, ids: list[int]) -> list[int]:
        limit, pieces = 0, 0
        while limit < min(self._core.settings.clean_rows, len(ids)) and pieces < PIECES_BYTES:
            pieces += self._core.pieces.size_of(ids[limit])
            limit += 1
        batch = ids[:limit]
        del ids[:limit]
        return batch

    def _put_back(self, outbound: list[int], pending: list[int]) -> None:
        self._busy = False
        self._outbound.extend(outbound)
        self._pending.extend(pending)

    @work
    def _clean(self, outbound: list[int], pending: list[int]) -> Steps:
        unit = yield Needs(outbound=set(outbound), pending=set(pending))
        ended = (unit.outbound.get(object_id) for object_id in outbound)
        for row in [row for row in ended if row is not None and row.outcome is not None]:
            if not self._is_kept(row):
                unit.delete_outbound(row)
        done = (unit.pending.get(bref) for bref in pending)
        left = [leave(self._core, unit, received) for received in done if received is not None]
        yield COMMITTED
        self._busy = False
        self._core.count("cleaned", len(outbound) + sum(left))

    def _is_kept(self, row: Outbound) -> bool:
        return is_kept(row) and self._core.settings.keep_rejected
