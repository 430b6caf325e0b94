"""Cleanup: rows go when their state says that nobody needs them, never by age (seed 3.3; PROTOCOL.md S13 and R9).

A row goes in the transaction in which its last condition is met: at the sender when it is delivered, at the receiver by
``leave``. What has ended otherwise stays a moment, since a receipt may correct it (S5c); ``Cleaner`` looks at such rows
again, and at those that the store names after a restart, and deletes them in batches beside the traffic.
"""

from collections.abc import Callable

from semq.engine.core import Core, Step
from semq.engine.sender.refused_copies import is_kept
from semq.store.rows import Outbound, Pending
from semq.store.unit import Unit
from semq.umx_t.status import AppStatus


def leave(core: Core, unit: Unit, row: Pending) -> bool:
    """R9: delete a row of tb_0030 that nobody needs any more; called by all work that may meet its last condition."""
    is_kept = row.app_status is AppStatus.PARKED and core.settings.keep_parked
    if not row.is_done or is_kept:
        return False
    unit.delete_pending(row)
    return True


class Cleaner:
    """Deletes finished rows of one node, a batch at a time."""

    def __init__(self, core: Core, outbound: list[int], pending: list[int], deleted: Callable[[int], None]) -> None:
        self._core = core
        self._outbound = outbound
        self._pending = pending
        self.deleted = deleted
        self._busy = False
        self._not_before = 0.0

    def tick(self) -> None:
        """Delete the next batch if there is one."""
        now = self._core.now()
        if self._busy or now < self._not_before or not (self._outbound or self._pending):
            return
        self._busy = True
        self._not_before = now + self._core.settings.clean_s
        self._core.post(_Clean(self, _take(self._outbound, self._limit), _take(self._pending, self._limit)), later=True)

    @property
    def next_due(self) -> float | None:
        """When ``tick`` has something to do, or None."""
        return self._not_before if not self._busy and (self._outbound or self._pending) else None

    @property
    def _limit(self) -> int:
        return self._core.settings.clean_rows


def _take(ids: list[int], limit: int) -> list[int]:
    batch = ids[:limit]
    del ids[:limit]
    return batch


class _Clean(Step):
    def __init__(self, cleaner: Cleaner, outbound: list[int], pending: list[int]) -> None:
        super().__init__()
        self._cleaner = cleaner
        self._outbound = outbound
        self._pending = pending
        self.needs.outbound.update(outbound)
        self.needs.pending.update(pending)

    def decide(self, unit: Unit) -> None:
        core = self._cleaner._core
        self._deleted = []
        for object_id in self._outbound:
            row = unit.outbound.get(object_id)
            if row is not None and row.outcome is not None and not self._is_kept(row):
                unit.delete_outbound(row)
        for bref in self._pending:
            pending = unit.pending.get(bref)
            if pending is not None and leave(core, unit, pending):
                self._deleted.append(bref)
        core.count("cleaned", len(self._outbound) + len(self._deleted))

    def _is_kept(self, row: Outbound) -> bool:
        return is_kept(row) and self._cleaner._core.settings.keep_rejected

    def committed(self) -> None:
        self._cleaner._busy = False
        for bref in self._deleted:
            self._cleaner.deleted(bref)

    def failed(self, error: Exception) -> None:
        self._cleaner._busy = False
        self._cleaner._outbound.extend(self._outbound)
        self._cleaner._pending.extend(self._pending)
