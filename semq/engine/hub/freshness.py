"""Which messages of the carrier are new: a captured message that is sent again, now or after a restart, is dropped.

Each incarnation of an instance numbers its batches. A batch to the queue of this incarnation, whose number is random,
was made after this incarnation had begun: it *proves* the sender, and batches with higher numbers. Batches of an
unproved sender are dropped, and the sender is asked for an answer, which proves it. A batch that is late by ``WINDOW``
numbers or more counts as repeated; timers repair this loss.
"""

from collections import OrderedDict
from enum import Enum, auto

WINDOW = 16_384
LIVES_MAX = 256  # incarnations remembered; beyond it, the one whose last batch is the oldest is forgotten
ASK_S = 1.0  # least time between two questions to an unproved incarnation


class Novelty(Enum):
    """Judgement of a received batch: to process, already processed, or of an unknown sender."""

    NEW = auto()
    REPEATED = auto()
    UNPROVED = auto()


class Freshness:
    """The numbers of the batches received lately. ``life``: the number of an incarnation of an instance."""

    def __init__(self) -> None:
        #: By proved life: the number of the first batch that proved it, the highest number, and the recent numbers.
        self._numbers: OrderedDict[int, tuple[int, int, set[int]]] = OrderedDict()
        self._asked_at: OrderedDict[int, float] = OrderedDict()  #: by unproved life

    def note(self, life: int, number: int, *, proves: bool) -> Novelty:
        """Note a batch. ``proves``: it came to the queue of this incarnation."""
        known = self._numbers.get(life)
        if known is None and not proves:
            return Novelty.UNPROVED
        since, highest, recent = known or (number, 0, set[int]())
        if (number < since and not proves) or number <= highest - WINDOW or number in recent:
            return Novelty.REPEATED
        recent.add(number)
        highest = max(highest, number)
        if len(recent) > 2 * WINDOW:
            recent = {each for each in recent if each > highest - WINDOW}
        self._numbers[life] = since, highest, recent
        self._numbers.move_to_end(life)
        if len(self._numbers) > LIVES_MAX:
            self._numbers.popitem(last=False)
        return Novelty.NEW

    def must_ask(self, life: int, now: float) -> bool:
        """Whether to ask an unproved incarnation now."""
        if now - self._asked_at.get(life, -ASK_S) < ASK_S:
            return False
        self._asked_at[life] = now
        self._asked_at.move_to_end(life)
        if len(self._asked_at) > LIVES_MAX:
            self._asked_at.popitem(last=False)
        return True
