"""The rate of one direction of a session: congestion control (AIMD) by the loss that the other end reports.

The loss is judged for ``SAMPLE`` documents or more. Loss above ``LOSS_MAX`` halves the rate; documents that left before
this change are not judged. Less loss raises the rate by a step. Before the first halving, each step doubles the rate.
After a halving, the step is a tenth of the halved rate; each raise above the last rate with too much loss doubles the
step.
"""

from semq.datagrams.counts import Coverage

START_BYTES_PER_S = 125_000  # rate of a new path: a burst of 10 datagrams of 1,200 bytes, as TCP begins (RFC 6928)
FLOOR_BYTES_PER_S = 10_000
LOSS_MAX = 0.1
SAMPLE = 100  # with random loss of 5 %, one sample in 90 has more than LOSS_MAX
STEPS = 10  # steps from the halved rate to the rate before the halving
BURST_S = 0.1  # after a pause, the bytes of this time may be sent at once


class SendingRate:
    """The rate of one direction, between ``FLOOR_BYTES_PER_S`` and a maximum, in bytes per second."""

    def __init__(self, maximum: int) -> None:
        self._maximum = float(max(maximum, FLOOR_BYTES_PER_S))
        self.restart()

    def restart(self) -> None:
        """Begin at the first rate, because the path is new."""
        self.bytes_per_s = min(float(START_BYTES_PER_S), self._maximum)
        self._step = self.bytes_per_s
        self._lossy_bytes_per_s = 0.0  # the last rate with too much loss
        self._covered, self._lost = 0, 0  # documents since the last judgement
        self._unjudged = 0  # documents that were under way at the last halving

    def report(self, covered: Coverage, under_way: int) -> bool:
        """Change the rate according to a report; return whether the rate was halved.

        ``under_way`` is the number of documents that have left and that no report has covered.
        """
        if self._unjudged > 0:
            self._unjudged -= covered.documents
            return False
        self._covered += covered.documents
        self._lost += covered.lost + covered.full
        if self._covered < SAMPLE:
            return False
        loss = self._lost / self._covered
        self._covered, self._lost = 0, 0
        if loss > LOSS_MAX:
            self._lossy_bytes_per_s = self.bytes_per_s
            self.bytes_per_s = max(self.bytes_per_s / 2, float(FLOOR_BYTES_PER_S))
            self._step, self._unjudged = self.bytes_per_s / STEPS, under_way
            return True
        self.bytes_per_s = min(self.bytes_per_s + self._step, self._maximum)
        if self.bytes_per_s > self._lossy_bytes_per_s:
            self._step = min(self._step * 2, self._maximum)
        return False


class ByteBucket:
    """A token bucket: the bytes that a rate allows now. It holds at most the bytes of ``BURST_S`` or of the largest
    datagram, whichever is more.
    """

    def __init__(self, datagram_bytes_max: int, now: float) -> None:
        self._datagram_bytes_max = datagram_bytes_max
        self._available, self._at = float("inf"), now

    def take(self, size: int, bytes_per_s: float, now: float) -> bool:
        """Take the bytes of a datagram out of the bucket; return False, and take none, if the bucket has fewer."""
        burst = max(bytes_per_s * BURST_S, float(self._datagram_bytes_max))
        available = min(self._available + (now - self._at) * bytes_per_s, burst)
        may_leave = available >= size
        self._at = now
        self._available = available - size if may_leave else available
        return may_leave
