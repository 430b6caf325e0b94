"""Documents that applications finished or set aside in their own transactions, by numbers in tb_0030_done.

``semq_done`` leaves a number, ``semq_park`` a number and why.

A NOTIFY wakes at once, a job of the node looks every ten seconds. Taking a number ends its row of tb_0030 as the ack of
an AMQP consumer would, in one commit with the number's own end; a number without a row is only forgotten. Used by
``local_engine``.
"""

from semq.engine.core import Step
from semq.engine.receiver.handover import Handing, Handled
from semq.store.unit import DoneRows, Unit
from semq.umx_t.grids import HandlingHeard
from semq.umx_t.status import AppStatus

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
            self.handing.core.post(_CompletionLook(self))

    def ended(self, found: int) -> None:
        """A look has come to its end; a full batch means that there may be more."""
        self._is_busy = False
        if found == BATCH:
            self.look()


class _CompletionLook(Step):
    def __init__(self, taking: Taking) -> None:
        super().__init__()
        self._taking = taking
        self._query = DoneRows(BATCH)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._found: list[tuple[int, str | None]] = list(unit.found.get(self._query, ()))

    def committed(self) -> None:
        taking = self._taking
        if not self._found:
            taking.ended(0)
            return
        parked = [(bref, why) for bref, why in self._found if why is not None]
        for bref, why in parked:
            taking.handing.core.post(_Park(taking.handing, bref, why))
        done = [bref for bref, why in self._found if why is None]
        # The last to be posted ends the look, when all before it have been taken.
        taking.handing.core.post(_Take(taking, done, len(self._found)))

    def failed(self, error: Exception) -> None:
        self._taking.ended(0)


class _Park(Handled):
    """One that was set aside; a person may have been faster."""

    def __init__(self, handing: Handing, bref: int, why: str) -> None:
        super().__init__(handing, [bref], HandlingHeard.fail, why, AppStatus.NEW)

    def decide(self, unit: Unit) -> None:
        super().decide(unit)
        unit.taken_done.update(self._brefs)


class _Take(Handled):
    def __init__(self, taking: Taking, brefs: list[int], found: int) -> None:
        super().__init__(taking.handing, brefs, HandlingHeard.done)
        self._taking = taking
        self._count = found

    def decide(self, unit: Unit) -> None:
        super().decide(unit)
        unit.taken_done.update(self._brefs)

    def committed(self) -> None:
        super().committed()
        self._taking.ended(self._count)

    def failed(self, error: Exception) -> None:
        super().failed(error)
        self._taking.ended(0)
