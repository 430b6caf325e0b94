"""The times of inquiries, without a timer per row: slices of record ids that are due together.

Record ids grow with time, so a slice has the rows of one period. A due slice is read by one query; if unsettled rows
remain, it is due again after twice the interval. Neighbouring slices of equal age are merged, so that the rows of a
target that is offline for weeks are in few slices. Rows in custody, and received rows that owe no acknowledgement, have
a slower pace (``patient``).
Time is monotonic (rule N21).
"""

from collections.abc import Iterable
from itertools import islice
from math import inf

from msgspec import Struct

from semq.umx_t import retry

GAP_MAX = 4096  # largest number of ids between two slices that are merged; the merged slice includes them
SLICES_MAX = 256  # with this number of slices, slices are merged however many ids are between them


class Slice(Struct):
    """The rows with ids ``first`` to ``last``."""

    first: int
    last: int
    due: float  #: time of the next inquiry
    inquiry_count: int = 0  #: number of inquiries since the last ``begin_again`` or ``make_all_due``
    patient: bool = False  #: whether the rows have the slower pace

    def covers(self, other: "Slice") -> bool:
        """Whether this slice includes all rows of ``other``, and is not due later."""
        is_as_soon = self.due <= other.due and (other.patient or not self.patient)
        return self.first <= other.first and other.last <= self.last and is_as_soon


class Schedule:
    """The slices of one table."""

    def __init__(self, first_s: float, max_s: float) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._width_s = first_s / 4
        self._growing_max = retry.doublings(first_s, max_s)  #: number of inquiries with growing intervals
        #: by number of earlier sends: seconds from a send to the first inquiry
        self._first_intervals = list(islice(retry.growing(first_s, max_s), self._growing_max + 1))
        self._slices: list[Slice] = []
        self._open: dict[int, Slice] = {}  #: the slices to which ``add`` may add rows, by doublings of the interval

    def __len__(self) -> int:
        return len(self._slices)

    def add(self, row_id: int, now: float, sends: int = 1) -> None:
        """Plan the first inquiry about a row that is sent now. ``sends``: number of its sends, this one included.

        Each earlier send doubles the interval, because a copy that its target does not record is sent again after each
        inquiry.
        """
        doubled = min(sends - 1, self._growing_max)
        due = now + self._first_intervals[doubled]
        slice_ = self._open.get(doubled)
        if slice_ is not None and due < slice_.due + self._width_s and self._may_extend(slice_, row_id, row_id):
            slice_.first = min(slice_.first, row_id)
            slice_.last = max(slice_.last, row_id)
            return
        self._open[doubled] = Slice(row_id, row_id, due, doubled)
        self._slices.append(self._open[doubled])

    def make_due(self, first: int, last: int, due: float) -> None:
        """Plan an inquiry about all rows of a span at ``due``, instead of earlier plans."""
        self._slices = [s for s in self._slices if s.first < first or s.last > last]
        self._slices.append(Slice(first, last, due))
        self._open.clear()

    def begin(self, spans: Iterable[tuple[int, int]], last: int, due: float) -> None:
        """Plan an inquiry about all rows up to ``last`` at ``due``, instead of all earlier plans.

        ``spans``: rows in custody, which have the slower pace.
        """
        self._slices, self._open, following = [], {}, 0
        for first, end in spans:
            if following < first:
                self._slices.append(Slice(following, first - 1, due))
            self._slices.append(Slice(first, end, due, patient=True))
            following = end + 1
        if following <= last:
            self._slices.append(Slice(following, last, due))

    def begin_again(self, due: float, sample: int = 0) -> None:
        """Make all rows due at ``due``, as for the first inquiry: after it, the intervals grow from twice the first.

        Slices with the slower pace keep this pace, and their time if it is earlier. Only their last ``sample`` ids get
        the usual pace.
        """
        patient = [slice_ for slice_ in self._slices if slice_.patient]
        newest = [Slice(max(s.first, s.last - sample + 1), s.last, due) for s in patient if sample]
        merged: list[Slice] = []
        for slice_ in sorted((s for s in self._slices if not s.patient), key=lambda s: s.first):
            if merged and self._may_extend(merged[-1], slice_.first, slice_.last):
                merged[-1].last = max(merged[-1].last, slice_.last)
            else:
                merged.append(Slice(slice_.first, slice_.last, due))
        for slice_ in patient:
            slice_.due, slice_.inquiry_count = min(slice_.due, due), 0
        self._slices, self._open = patient + merged + newest, {}

    def make_all_due(self, due: float) -> None:
        """Make all rows due at ``due``, at the usual pace."""
        for slice_ in self._slices:
            slice_.due, slice_.inquiry_count, slice_.patient = due, 0, False
        self._open.clear()

    def take(self, now: float, *, patient: bool = True) -> Slice | None:
        """Remove and return the slice that was due first; None if none is due. If unsettled rows remain, pass it to
        ``again``. ``patient``: include slices with the slower pace.
        """
        due = min((s for s in self._slices if patient or not s.patient), key=lambda s: s.due, default=None)
        if due is None or due.due > now:
            return None
        self._slices.remove(due)
        if self._is_open(due):
            del self._open[due.inquiry_count]
        return due

    def again(self, slice_: Slice, now: float, jitter: float, max_s: float | None = None) -> None:
        """Plan the next inquiry for a slice with remaining rows."""
        longest = self._max_s if max_s is None else max_s
        slice_.due = now + retry.interval(slice_.inquiry_count + 1, self._first_s, longest, jitter)
        slice_.inquiry_count += 1
        if any(other.covers(slice_) for other in self._slices):
            return  # a row that is sent repeatedly is in many slices
        self._slices = [other for other in self._slices if self._is_open(other) or not slice_.covers(other)]
        for other in self._slices:
            is_due_together = abs(other.due - slice_.due) <= self._first_s + 0.25 * (slice_.due - now)
            # Of equal age: with an equal number of inquiries, or both at the longest interval.
            fewest = min(other.inquiry_count, slice_.inquiry_count)
            alike = other.inquiry_count == slice_.inquiry_count or fewest >= self._growing_max
            may_merge = slice_.patient or self._may_extend(other, slice_.first, slice_.last)
            is_of_same_pace = not self._is_open(other) and other.patient is slice_.patient
            if is_of_same_pace and alike and is_due_together and may_merge:
                other.first, other.last = min(other.first, slice_.first), max(other.last, slice_.last)
                return
        self._slices.append(slice_)

    def put_back(self, slice_: Slice, due: float) -> None:
        """Put a slice back: work on it failed, or did not reach all rows."""
        slice_.due = due
        self._slices.append(slice_)

    def _is_open(self, slice_: Slice) -> bool:
        return self._open.get(slice_.inquiry_count) is slice_

    def _may_extend(self, slice_: Slice, first: int, last: int) -> bool:
        """Whether a slice may be extended to these rows."""
        low, high = min(slice_.last, last) + 1, max(slice_.first, first) - 1  # the ids between them
        if high < low or len(self._slices) >= SLICES_MAX:
            return True
        return high - low < GAP_MAX and not any(s.patient and s.first <= high and low <= s.last for s in self._slices)

    def due_of(self, row_id: int) -> float | None:
        """Return the time of the next inquiry about a row; None if none is planned."""
        return min((s.due for s in self._slices if s.first <= row_id <= s.last), default=None)

    def next_due(self, patient_from: float = 0.0) -> float | None:
        """Return the time of the next inquiry; None without slices. Slices with the slower pace are not due before
        ``patient_from``.
        """
        if not self._slices:
            return None
        first = min([s.due for s in self._slices if not s.patient], default=inf)
        first_patient = min([s.due for s in self._slices if s.patient], default=inf)
        return min(first, max(first_patient, patient_from))
