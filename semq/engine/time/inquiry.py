"""Inquiries about rows without an answer (PROTOCOL.md S11, S12, H10, R7, R8).

``Sweep`` processes the slices of a ``Schedule`` that are due, one bounded piece of work at a time, so that inquiries
use a limited share of a link.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from semq.engine.core import Core
from semq.engine.sender.deeds import AfterOutbound
from semq.engine.sender.sender import Sender
from semq.engine.time.schedule import Schedule, Slice
from semq.store.postgres.errors import RowRefused
from semq.store.rows import Outbound, Pending
from semq.store.unit import Needs, Query, Unfinished, Unit, Unsettled
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.grids import SenderEvent
from semq.umx_t.status import SendStatus


class Asked(NamedTuple):
    """The result of one read of a slice."""

    rows: int  #: number of rows that may need another inquiry
    send: Callable[[], None]  #: sends the inquiries, after the commit
    patient: bool = False  #: the slower pace is enough for all these rows
    longest_s: float | None = None  #: the longest interval; None: that of the schedule


class Sweep:
    """Inquiries about the rows of one table, slice by slice, as the slices become due."""

    def __init__(
        self,
        core: Core,
        schedule: Schedule,
        query: Callable[[int, int, int], Unsettled | Unfinished],
        ask: Callable[[Unit, Query], Asked],
        ready: Callable[[], bool],
    ) -> None:
        self.core = core
        self.schedule = schedule
        self._query = query
        self._ask = ask
        self._ready = ready  #: whether there is a link for inquiries
        self._busy = False
        self._not_before = self._patient_from = 0.0

    def tick(self) -> None:
        now = self.core.now()
        if self._busy or now < self._not_before or not self._ready():
            return
        slice_ = self.schedule.take(now, patient=now >= self._patient_from)
        if slice_ is not None:
            self._busy = True
            self._not_before = now + self.core.settings.ask_pause_s
            self.core.post(self._ask_about(slice_), failed=partial(self._put_back, slice_))

    @property
    def next_due(self) -> float | None:
        """When ``tick`` is due, in monotonic seconds; None if no slice waits or there is no link."""
        due = None if self._busy else self.schedule.next_due(self._patient_from)
        # Without a link nothing is due: a caller that waits for ``next_due`` would otherwise spin.
        return None if due is None or not self._ready() else max(due, self._not_before)

    @work
    def _ask_about(self, slice_: Slice) -> Steps:
        settings = self.core.settings
        query = self._query(slice_.first, slice_.last, settings.ask_rows)
        unit = yield Needs(queries={query})
        asked = self._ask(unit, query)
        # Rows that earlier work of this unit has settled count, too: the number shows whether the query was full.
        found = unit.found.get(query, [])
        is_full = len(found) >= settings.ask_rows
        last = row_id(found[-1]) if found else slice_.last
        yield COMMITTED
        self._busy = False
        now = self.core.now()
        if is_full and last < slice_.last:
            # One piece of work may not read more rows: the rest of the slice is due immediately.
            unread = Slice(last + 1, slice_.last, slice_.due, slice_.inquiry_count, slice_.patient)
            self.schedule.put_back(unread, slice_.due)
            slice_.last = last
        if asked.rows:
            slice_.patient = asked.patient
            if slice_.patient:  # take no patient slice before this time
                self._patient_from = now + asked.rows / settings.ask_custody_per_s
            self.schedule.again(slice_, now, self.core.clock.random(), asked.longest_s)
        asked.send()

    def _put_back(self, slice_: Slice, error: Exception) -> None:
        """Ask again about a slice. If Postgres refuses one of its rows, divide it, so that this row stops no other."""
        self._busy = False
        now, middle = self.core.now(), (slice_.first + slice_.last) // 2
        if not isinstance(error, RowRefused):
            self.schedule.put_back(slice_, now + 1.0)
        elif slice_.first == slice_.last:
            self.schedule.again(slice_, now, self.core.clock.random())
        else:
            for first, last in (slice_.first, middle), (middle + 1, slice_.last):
                self.schedule.put_back(replace(slice_, first=first, last=last), now)


def row_id(row: Outbound | Pending) -> int:
    """Return the number of a row; slices are ranges of these numbers."""
    return row.object_id if isinstance(row, Outbound) else row.bref


class OutboundAsker:
    """S11 and S12: sends inquiries about own rows to the receiver or the custodian."""

    def __init__(self, core: Core, sender: Sender) -> None:
        self.core = core
        self.rows = sender.rows
        self.schedule = sender.schedule
        self.sweep = Sweep(core, self.schedule, Unsettled, self._ask, lambda: sender.uplink.has_any)

    def _ask(self, unit: Unit, query: Query) -> Asked:
        after = AfterOutbound(self.core.now_ms())
        patience = []
        for row in unit.outbound_found(query):
            if row.outcome is None:
                self.rows.apply_event(unit, row, SenderEvent.ask, after)
                patience.append(row.ss_status is SendStatus.SS_ACK and row.object_id not in self.rows.doubts)
        longest_s = self.core.settings.inquiry_custody_s_max if all(patience) else None
        return Asked(len(patience), lambda: self.rows.apply(after), all(patience), longest_s)
