"""Inquiry: silence is repaired by asking, never by hoping (seed 3.2; PROTOCOL.md S11, S12, H10, R7, R8).

``Sweep`` walks the slices of a ``Schedule`` that are due, one bounded piece of work at a time (the inquiry budget of a
link); a ``look`` callback decides for each row found whether somebody is asked about it. ``OutboundAsker`` is the one
for own rows.
"""

from collections.abc import Callable, Iterator

from semq.engine.core import Core, Step
from semq.engine.sender.deeds import AfterOutbound
from semq.engine.sender.sender import Sender
from semq.engine.time.schedule import Schedule, Slice
from semq.store.rows import Outbound, Pending
from semq.store.unit import Query, Unfinished, Unit, Unsettled
from semq.umx_t.grids import Heard
from semq.umx_t.status import SendStatus


class Sweep:
    """Asks about the rows of one table when their slices are due."""

    def __init__(
        self,
        core: Core,
        schedule: Schedule,
        query: Callable[[int, int, int], Unsettled | Unfinished],
        look: Callable[[Unit, Query], Iterator[tuple[int, bool]]],
        ready: Callable[[], bool],
        settle: Callable[[], None] = lambda: None,
        longest_s: Callable[[bool], float] | None = None,
    ) -> None:
        self.core = core
        self.schedule = schedule
        self._query = query
        self._look = look
        self._ready = ready
        self._settle = settle
        self._longest_s = longest_s
        self._busy = False
        self._not_before = self._patient_from = 0.0

    def tick(self) -> None:
        """Look at the next slice that is due, if the last one is done and somebody can be asked."""
        now = self.core.now()
        if self._busy or now < self._not_before or not self._ready():
            return
        slice_ = self.schedule.take(now, patient=now >= self._patient_from)
        if slice_ is not None:
            self._busy = True
            self._not_before = now + self.core.settings.ask_pause_s
            self.core.post(_InquiryLook(self, slice_))

    @property
    def next_due(self) -> float | None:
        """When ``tick`` has something to do, or None."""
        # While nobody can be asked nothing is due: a driver that ticks when told would spin.
        due = None if self._busy or not self._ready() else self.schedule.next_due(self._patient_from)
        return None if due is None else max(due, self._not_before)

    def asked_patiently(self, rows: int) -> None:
        """So many rows were asked about for which there is no hurry: their like wait until the pace allows more."""
        self._patient_from = self.core.now() + rows / self.core.settings.ask_custody_per_s


class _InquiryLook(Step):
    def __init__(self, sweep: Sweep, slice_: Slice) -> None:
        super().__init__()
        self._sweep = sweep
        self._slice = slice_
        self._limit = sweep.core.settings.ask_rows
        self._query = sweep._query(slice_.first, slice_.last, self._limit)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        looked = list(self._sweep._look(unit, self._query))
        self._looked = len(looked)
        self._remain = bool(looked)
        self._patient = bool(looked) and all(patient for _, patient in looked)
        # What the query found, not what is left of it: earlier work of this unit may have settled some of many.
        found = unit.found.get(self._query, [])
        self._full = len(found) >= self._limit
        self._last = row_id(found[-1]) if found else self._slice.last

    def committed(self) -> None:
        sweep, slice_ = self._sweep, self._slice
        sweep._busy = False
        now = sweep.core.now()
        if self._full and self._last < slice_.last:
            # More rows than one piece of work may hold: the rest is due at once.
            rest = Slice(self._last + 1, slice_.last, slice_.due, slice_.asked, slice_.patient)
            sweep.schedule.put_back(rest, slice_.due)
            slice_.last = self._last
        if self._remain:
            longest = None
            if sweep._longest_s is not None:
                longest = sweep._longest_s(self._patient)
                slice_.patient = self._patient
            if slice_.patient:
                sweep.asked_patiently(self._looked)
            sweep.schedule.again(slice_, now, sweep.core.clock.random(), longest)
        sweep._settle()

    def failed(self, error: Exception) -> None:
        self._sweep._busy = False
        self._sweep.schedule.put_back(self._slice, self._sweep.core.now() + 1.0)


def row_id(row: Outbound | Pending) -> int:
    """The number of a row, by which slices are cut."""
    return row.object_id if isinstance(row, Outbound) else row.bref


class OutboundAsker:
    """S11 and S12: asks the receiver, or the custodian, about own rows."""

    def __init__(self, core: Core, sender: Sender) -> None:
        self.core = core
        self.rows = sender.rows
        self.schedule = sender.schedule
        self.sweep = Sweep(
            core, self.schedule, Unsettled, self._look, lambda: sender.link is not None, self._settle, self._longest
        )
        self._after = AfterOutbound(core.now_ms())

    def _longest(self, all_in_custody: bool) -> float:
        s = self.core.settings
        return s.inquiry_custody_s_max if all_in_custody else s.inquiry_s_max

    def _look(self, unit: Unit, query: Query) -> Iterator[tuple[int, bool]]:
        self._after = AfterOutbound(self.core.now_ms())
        for row in unit.outbound_found(query):
            if row.outcome is None:
                self.rows.hear(unit, row, Heard.ask, self._after)
                yield row.object_id, row.ss_status is SendStatus.SS_ACK and row.object_id not in self.rows.doubts

    def _settle(self) -> None:
        self.rows.apply(self._after)
