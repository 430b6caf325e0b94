"""The window of sequence numbers: each number passes once, and numbers below the window do not pass (RFC 4303)."""

WINDOW = 1024  # numbers, the highest received one included
_BITS = (1 << WINDOW) - 1


class ReplayWindow:
    """The received sequence numbers of one direction."""

    def __init__(self) -> None:
        self.highest = -1
        self._seen = 0  # bit n: number ``highest - n``

    def is_new(self, number: int) -> bool:
        """Return whether a number may pass: it is above the window, or inside the window and not noted yet.

        Changes nothing, because a datagram counts only after its authentication.
        """
        distance = self.highest - number
        return distance < 0 or (distance < WINDOW and not self._seen >> distance & 1)

    def note(self, number: int) -> bool:
        """Note the number of an authenticated datagram; return whether it is the highest so far."""
        ahead = number - self.highest
        if ahead <= 0:
            self._seen |= 1 << -ahead
            return False
        self._seen = (self._seen << min(ahead, WINDOW) & _BITS) | 1
        self.highest = number
        return True
