"""Repeated messages of the carrier, by the numbers that each incarnation of an instance gives its messages.

Most frames may be repeated without harm. A document of class 1 may not: if there is no room for its second copy, the
copy is discarded, and its sender receives DROPPED although the first copy has arrived. A message that is late by more
than ``WINDOW`` numbers counts as repeated, which is a loss that timers repair. Used by ``instances``.
"""

from collections import OrderedDict

WINDOW = 4096
LIVES_MAX = 256  # incarnations; the one whose last message is the oldest is dropped


class Repetitions:
    """The numbers of the messages received lately."""

    def __init__(self) -> None:
        #: By incarnation: the highest number, and the recent numbers.
        self._numbers: OrderedDict[int, tuple[int, set[int]]] = OrderedDict()

    def is_repeated(self, life: int, number: int) -> bool:
        """Whether a message repeats an earlier one of the same incarnation; note its number."""
        highest, recent = self._numbers.get(life, (0, set[int]()))
        if number <= highest - WINDOW or number in recent:
            return True
        recent.add(number)
        highest = max(highest, number)
        if len(recent) > 2 * WINDOW:
            recent = {each for each in recent if each > highest - WINDOW}
        self._numbers[life] = highest, recent
        self._numbers.move_to_end(life)
        if len(self._numbers) > LIVES_MAX:
            self._numbers.popitem(last=False)
        return False
