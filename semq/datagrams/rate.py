"""The rate of one direction of a session: congestion control (AIMD) by the loss that the other end reports.

A judgement covers ``SAMPLE`` documents or more. Loss above ``LOSS_MAX`` halves the rate; then documents that left
before the change are not judged. Less loss raises the rate by a step: a tenth of the halved rate, and twice as much as
before each time that the rate is above the last one with loss. So the rate grows fast on a new path and after a long
outage, and slowly near a known limit. Pure: no clock, no sockets.
"""

from semq.datagrams.counts import Coverage

START_BYTES_PER_S = 125_000  # of a new path: 10 full datagrams of 1,200 bytes in a burst, as TCP begins (RFC 6928)
FLOOR_BYTES_PER_S = 10_000
LOSS_MAX = 0.1
SAMPLE = 100  # with random loss of 5 %, one such sample in 90 has more than LOSS_MAX
STEPS = 10  # from the halved rate to the rate before
BURST_S = 0.1  # of the rate: what may leave at once after a pause


class SendingRate:
    """The rate of one direction, between ``FLOOR_BYTES_PER_S`` and a maximum, in bytes per second."""

    def __init__(self, maximum: int) -> None:
        self._maximum = float(max(maximum, FLOOR_BYTES_PER_S))
        self.restart()

    def restart(self) -> None:
        """Begin again: the path is another one."""
        self.bytes_per_s = min(float(START_BYTES_PER_S), self._maximum)
        self._step = self.bytes_per_s
        self._lossy = 0.0  # the last rate with too much loss
        self._covered, self._lost = 0, 0  # documents since the last judgement
        self._unjudged = 0  # documents that left before the last change

    def report(self, covered: Coverage, under_way: int) -> bool:
        """Take a report; ``under_way``: the number of documents that have left and that no report has covered. Return
        whether the rate was halved."""
        if self._unjudged > 0:
            self._unjudged -= covered.documents
            return False
        self._covered += covered.documents
        self._lost += covered.lost + covered.full
        if self._covered < SAMPLE:
            return False
        part = self._lost / self._covered
        self._covered, self._lost = 0, 0
        if part > LOSS_MAX:
            self._lossy = self.bytes_per_s
            self.bytes_per_s = max(self.bytes_per_s / 2, float(FLOOR_BYTES_PER_S))
            self._step, self._unjudged = self.bytes_per_s / STEPS, under_way
            return True
        self.bytes_per_s = min(self.bytes_per_s + self._step, self._maximum)
        if self.bytes_per_s > self._lossy:
            self._step = min(self._step * 2, self._maximum)
        return False


class ByteBucket:
    """The bytes that a rate allows now: at most those of ``BURST_S``, and at least one datagram of any size."""

    def __init__(self, one: int, now: float) -> None:
        """``one``: size of the largest datagram."""
        self._one = one
        self._left, self._at = float("inf"), now

    def take(self, size: int, bytes_per_s: float, now: float) -> bool:
        """Return whether so many bytes may leave now; they are then counted."""
        burst = max(bytes_per_s * BURST_S, float(self._one))
        left = min(self._left + (now - self._at) * bytes_per_s, burst)
        self._at = now
        self._left = left - size if left >= size else left
        return left >= size
