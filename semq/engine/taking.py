"""Documents that applications finished in their own transactions: ``semq_done`` leaves their numbers in tb_0030_done.

A NOTIFY wakes at once, a job of the node looks every ten seconds. Taking a number ends its row of tb_0030 as the ack of
an AMQP consumer would, in one commit with the number's own end; a number without a row is only forgotten. Used by
``local``.
"""

from semq.engine.core import Step
from semq.engine.handing import Handing, Handled
from semq.store.unit import DoneRows, Unit
from semq.umx_t.grids import HandlingHeard

BATCH = 500


class Taking:
    """Takes what is done, one batch at a time."""

    def __init__(self, handing: Handing) -> None:
        self.handing = handing
        self._is_busy = False

    def look(self) -> None:
        """Look for numbers, unless a look is under way."""
        if not self._is_busy:
            self._is_busy = True
            self.handing.core.post(_Look(self))

    def ended(self, found: int) -> None:
        """A look has come to its end; a full batch means that there may be more."""
        self._is_busy = False
        if found == BATCH:
            self.look()


class _Look(Step):
    def __init__(self, taking: Taking) -> None:
        super().__init__()
        self._taking = taking
        self._query = DoneRows(BATCH)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._brefs: list[int] = list(unit.found.get(self._query, ()))

    def committed(self) -> None:
        if self._brefs:
            self._taking.handing.core.post(_Take(self._taking, self._brefs))
        else:
            self._taking.ended(0)

    def failed(self, error: Exception) -> None:
        self._taking.ended(0)


class _Take(Handled):
    def __init__(self, taking: Taking, brefs: list[int]) -> None:
        super().__init__(taking.handing, brefs, HandlingHeard.done)
        self._taking = taking

    def decide(self, unit: Unit) -> None:
        super().decide(unit)
        unit.taken_done.update(self._brefs)

    def committed(self) -> None:
        super().committed()
        self._taking.ended(len(self._brefs))

    def failed(self, error: Exception) -> None:
        super().failed(error)
        self._taking.ended(0)
