"""The floor of a stream: the lowest position that is not settled (PROTOCOL.md section 2; rules N2 and N3).

A message is settled when it has a final outcome at the sender; custody is not final (F1).
"""

from collections.abc import Iterable


class Floor:
    """The lowest unsettled position of one stream."""

    __slots__ = ("_settled_above", "value")

    def __init__(self, value: int = 0, settled_above: Iterable[int] = ()) -> None:
        self.value = value
        self._settled_above = {sid for sid in settled_above if sid >= value}
        self._climb()

    def settle(self, sid: int) -> None:
        """Note that the message at this position is settled; repeated calls are harmless."""
        if sid == self.value:
            self.value += 1
            self._climb()
        elif sid > self.value:
            self._settled_above.add(sid)

    def _climb(self) -> None:
        while self.value in self._settled_above:
            self._settled_above.remove(self.value)
            self.value += 1
