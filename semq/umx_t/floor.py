"""The floor of a stream: the lowest number that is not settled (PROTOCOL.md section 2; rules R2 and R3).

Only messages whose end is final at the sender count; custody does not (break F1). The sender keeps one ``Floor`` per
stream, moves it after the commit that settled a message, and carries it in every message and ReAck2, so that the
receiver may forget.
"""

from collections.abc import Iterable


class Floor:
    """The lowest unsettled number of one stream, from the numbers settled so far."""

    __slots__ = ("_above", "value")

    def __init__(self, value: int = 0, settled_above: Iterable[int] = ()) -> None:
        self.value = value
        self._above = {sid for sid in settled_above if sid >= value}
        self._climb()

    def settle(self, sid: int) -> None:
        """Note that the message with this number is settled; repeats are harmless."""
        if sid == self.value:
            self.value += 1
            self._climb()
        elif sid > self.value:
            self._above.add(sid)

    @property
    def gaps(self) -> int:
        """How many numbers above the floor are settled already: what an unsettled message keeps in memory."""
        return len(self._above)

    def _climb(self) -> None:
        while self.value in self._above:
            self._above.remove(self.value)
            self.value += 1
