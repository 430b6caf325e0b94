"""The window of sequence numbers: each passes once, and numbers far below the highest one do not pass (RFC 4303)."""

WINDOW = 1024
_BITS = (1 << WINDOW) - 1


class ReplayWindow:
    """The sequence numbers of one direction that were received."""

    def __init__(self) -> None:
        self.highest = -1
        self._seen = 0  # bit n: number ``highest - n``

    def is_new(self, number: int) -> bool:
        """Whether a number has not passed and is inside the window or above it. Changes nothing: a datagram counts
        only when it is authenticated."""
        back = self.highest - number
        return back < 0 or (back < WINDOW and not self._seen >> back & 1)

    def note(self, number: int) -> bool:
        """Note the number of an authenticated datagram; return whether it is the highest so far."""
        ahead = number - self.highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
            return False
        self._seen = (self._seen << min(ahead, WINDOW) & _BITS) | 1
        self.highest = number
        return True
