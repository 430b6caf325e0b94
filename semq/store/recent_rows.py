"""Rows in the writer's memory that the next unit need not load: new rows that no unit has asked for, and streams.

Only the owner of the lease changes these rows, and each unit checks the lease, so memory and database agree. A unit
takes the rows that it needs; only its commit puts some of them back. So after a failed unit, they are loaded again.

``Load`` takes rows, the writer reports commits and failures.
"""

import math
from collections.abc import Iterable
from typing import Any, TypeVar

from semq.store.rows import InStream, InStreamKey, Outbound, OutStream, OutStreamKey, Pending
from semq.store.unit import Unit

K = TypeVar("K")
ROWS_MAX = 2000  # new rows of each table
STREAMS_MAX = 20_000


class RecentRows:
    """Rows by field of ``Needs`` and by key, as they are in the database."""

    def __init__(self) -> None:
        self._outbound: dict[int, Outbound] = {}
        self._pending: dict[int, Pending] = {}
        self._out_streams: dict[OutStreamKey, OutStream] = {}
        self._in_streams: dict[InStreamKey, InStream] = {}
        self._by_field: dict[str, dict[Any, Any]] = {
            "outbound": self._outbound, "pending": self._pending, "out_streams": self._out_streams,
            "in_streams": self._in_streams,
        }  # fmt: skip
        self._tops: dict[InStreamKey, int] = {}  # highest position in the receiver's ledger; -1: none

    def clear(self) -> None:
        """Forget everything, after a unit has failed."""
        for rows in (*self._by_field.values(), self._tops):
            rows.clear()

    def take(self, name: str, keys: Iterable[K]) -> tuple[dict[K, object], list[K]]:
        """Take the rows of a field of ``Needs`` that are here; return them, and the other keys."""
        rows = self._by_field.get(name)
        if not rows:
            return {}, list(keys)
        known = {key: rows.pop(key) for key in keys if key in rows}
        return known, [key for key in keys if key not in known]

    def may_be_recorded(self, stream: InStreamKey, sid: int) -> bool:
        """Whether the receiver's ledger may have an entry at this position."""
        return sid <= self._tops.get(stream, math.inf)

    def note_top(self, stream: InStreamKey, sid: int) -> None:
        """Note the highest position of a loaded stream in the receiver's ledger."""
        self._tops[stream] = sid

    def note_commit(self, unit: Unit) -> None:
        """Keep the new rows and the streams of a committed unit."""
        self._out_streams.update(unit.out_streams)
        for key, stream in unit.in_streams.items():
            self._tops.setdefault(key, -1)  # a stream that was not loaded is new
            if stream.closed is None:  # housekeeping deletes closed ones
                self._in_streams[key] = stream
        for slot in unit.new_recorded:
            self._tops[slot.stream] = max(self._tops[slot.stream], slot.sid)
        self._outbound.update(unit.new_outbound)
        self._pending.update(unit.new_pending)
        for rows, changed in ((self._outbound, _changed_outbound(unit)), (self._pending, _changed_pending(unit))):
            for keys in changed:
                for number in keys:
                    rows.pop(number, None)
            while len(rows) > ROWS_MAX:
                del rows[next(iter(rows))]
        if len(self._tops) > STREAMS_MAX or len(self._out_streams) > STREAMS_MAX:
            self.clear()


def _changed_outbound(unit: Unit) -> tuple[Iterable[int], ...]:
    return unit.changed_outbound, unit.deleted_outbound, unit.dropped_bodies


def _changed_pending(unit: Unit) -> tuple[Iterable[int], ...]:
    return (
        unit.platform_acked, unit.sender_acked, unit.given, unit.taken_back, unit.changed_app_status,
        unit.deleted_pending,
    )  # fmt: skip
