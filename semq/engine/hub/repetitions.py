"""Repeated messages of the carrier, by the numbers that each incarnation of an instance gives its messages.

Most frames may be repeated without harm. A document of class 1 may not: if there is no room for its second copy, its
sender receives DROPPED although the first copy has arrived. A message that is late by ``WINDOW`` numbers or more counts
as repeated; timers repair this loss.
"""

from collections import OrderedDict

WINDOW = 4096
INCARNATIONS_MAX = 256  # beyond it, the incarnation whose last message is the oldest is forgotten


class Repetitions:
    """The numbers of the messages received lately."""

    def __init__(self) -> None:
        #: By incarnation: the highest number, and the recent numbers.
        self._numbers: OrderedDict[int, tuple[int, set[int]]] = OrderedDict()

    def note(self, incarnation: int, number: int) -> bool:
        """Note the number of a message; return whether it repeats an earlier message of the same incarnation."""
        highest, recent = self._numbers.get(incarnation, (0, set[int]()))
        if number <= highest - WINDOW or number in recent:
            return True
        recent.add(number)
        highest = max(highest, number)
        if len(recent) > 2 * WINDOW:
            recent = {each for each in recent if each > highest - WINDOW}
        self._numbers[incarnation] = highest, recent
        self._numbers.move_to_end(incarnation)
        if len(self._numbers) > INCARNATIONS_MAX:
            self._numbers.popitem(last=False)
        return False
