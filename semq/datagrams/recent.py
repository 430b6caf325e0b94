"""The loss of the last minutes in one direction, for the health check: sums of documents by minute."""

from collections import deque

from semq.answers.status import LossState
from semq.datagrams.counts import Coverage

WINDOW_MINUTES = 5
MINUTE_S = 60.0


class RecentLoss:
    """The documents of the last ``WINDOW_MINUTES`` minutes."""

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, Coverage]] = deque(maxlen=WINDOW_MINUTES)

    def note(self, now: float, covered: Coverage) -> None:
        """Add the documents of a report."""
        minute = int(now // MINUTE_S)
        if self._minutes and self._minutes[-1][0] == minute:
            covered = _total([self._minutes.pop()[1], covered])
        self._minutes.append((minute, covered))

    def shown(self, now: float) -> LossState:
        """Return the sums of the window."""
        begin = int(now // MINUTE_S) - WINDOW_MINUTES
        total = _total([covered for minute, covered in self._minutes if minute > begin])
        return LossState(documents=total.documents, lost=max(0, total.lost), full=total.full)


def _total(parts: list[Coverage]) -> Coverage:
    return Coverage(*map(sum, zip(Coverage(), *parts, strict=True)))
