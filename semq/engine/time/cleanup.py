"""Cleanup: rows go when their state says that nobody needs them, never by age (seed 3.3; PROTOCOL.md S13 and R9).

The parts of the engine note the rows whose state has become final; here they are looked at again, inside a transaction,
and deleted in batches beside the traffic. After a restart the store names the rows that were left over.
"""

from collections.abc import Callable

from semq.engine.core import Core, Step
from semq.engine.sender.refused_copies import is_kept
from semq.store.rows import Outbound, Pending
from semq.store.unit import Unit
from semq.umx_t.status import AppStatus


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
            if pending is not None and pending.is_done and not self._waits_for_a_person(pending):
                unit.delete_pending(pending)
                self._deleted.append(bref)
        core.count("cleaned", len(self._outbound) + len(self._deleted))

    def _is_kept(self, row: Outbound) -> bool:
        return is_kept(row) and self._cleaner._core.settings.keep_rejected

    def _waits_for_a_person(self, row: Pending) -> bool:
        return row.app_status is AppStatus.PARKED and self._cleaner._core.settings.keep_parked

    def committed(self) -> None:
        self._cleaner._busy = False
        for bref in self._deleted:
            self._cleaner.deleted(bref)

    def failed(self, error: Exception) -> None:
        self._cleaner._busy = False
        self._cleaner._outbound.extend(self._outbound)
        self._cleaner._pending.extend(self._pending)
