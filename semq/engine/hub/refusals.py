"""What an operator of the platform does about stored copies: refuse them, send them again (PROTOCOL.md H16, H18).

A refusal takes the payload and keeps the row until the sender has noted it (H17, ``copies``). The sender is told at
once, whenever it asks or sends the message again, and by the clock (``custody``). Who was first, the operator or the
target, is decided by the order of the transactions on the store. Acts are by number of row, a batch at a time; an act
that is repeated finds its work done.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from semq.engine.hub.copies import OnCopies
from semq.engine.hub.deeds import RefusalVerdict, standing_of
from semq.foreign_text import shortened
from semq.store.rows import Event, Outbound, Side
from semq.store.unit import Unit
from semq.umx_t.grids import Held, HubHeard

if TYPE_CHECKING:
    from semq.engine.hub.custody import Holding

Counts = Counter[str]
REASON_MAX = 500  # characters
NOT_SENT = " (this store had not sent it)"
NOBODY = "its sender is no longer served: there is nobody to tell"


@dataclass(frozen=True, slots=True)
class ActOnCopies:
    """What somebody does, and why. ``done`` hears how many rows met which fate, once that is committed."""

    by: str  #: a user of the node
    why: str
    done: Callable[[Counts], None]
    failed: Callable[[Exception], None]

    def says(self, what: str, more: str = "") -> str:
        """For the ledger, and for the sender."""
        return shortened(f"{what} by {self.by}: {self.why}", REASON_MAX - len(more)) + more


class Refusals:
    """The acts."""

    def __init__(self, holding: "Holding") -> None:
        self.holding = holding

    def refuse(self, rows: Sequence[int], act: ActOnCopies, *, only_copies: bool = False) -> None:
        """H16: give copies up; their senders are told, with the reason.

        ``only_copies``: also those whose sender has given its own payload away for custody (``@Ack2=0``). A void
        marker is refused only where there is no target that could answer it. Counts ``refused``, ``repeated`` (refused
        before, told again), ``only_copy`` and ``marker`` (left alone), ``gone``.
        """
        self.holding.core.post(_Refuse(self.holding, rows, act, only_copies))

    def resend(self, rows: Sequence[int], act: ActOnCopies) -> None:
        """H18: send copies once more, also parked ones. Counts ``resent``, ``refused`` (left alone), ``gone``."""
        self.holding.core.post(_ResendCopies(self.holding, rows, act))


class _OnMany(OnCopies):
    def __init__(self, holding: "Holding", rows: Sequence[int], act: ActOnCopies) -> None:
        super().__init__(holding, rows)
        self._act = act
        self._ids = rows

    def _look(self, unit: Unit) -> None:
        self._counts: Counts = Counter()
        for object_id in self._ids:
            self._counts[self._one(unit, unit.outbound.get(object_id))] += 1

    def _one(self, unit: Unit, row: Outbound | None) -> str:
        """Act on a row; the fate that is counted."""
        raise NotImplementedError

    def committed(self) -> None:
        super().committed()
        self._act.done(self._counts)

    def failed(self, error: Exception) -> None:
        self._act.failed(error)


class _Refuse(_OnMany):
    def __init__(self, holding: "Holding", rows: Sequence[int], act: ActOnCopies, only_copies: bool) -> None:
        super().__init__(holding, rows, act)
        self._only_copies = only_copies
        what = "refused at the platform"
        self._verdict = RefusalVerdict(act.says("refused"), act.says(what), act.says(what, NOT_SENT))

    def _one(self, unit: Unit, row: Outbound | None) -> str:
        directory, is_repeated = self._holding.directory, standing_of(row) is Held.REFUSED
        if row is not None and not is_repeated:
            if row.void and directory.serves(row.target.node):
                return "marker"
            if not (row.ack2 or row.void or self._only_copies):
                return "only_copy"
        self._hear(unit, row, HubHeard.refuse, self._verdict)
        if row is None:
            return "gone"
        if not directory.serves(row.lk0.node):
            self._hear(unit, row, HubHeard.noted, detail=NOBODY)
        return "repeated" if is_repeated else "refused"

    def committed(self) -> None:
        super().committed()
        self._core.count("refused_by_operator", self._counts["refused"])


class _ResendCopies(_OnMany):
    def _one(self, unit: Unit, row: Outbound | None) -> str:
        standing = self._hear(unit, row, HubHeard.resend)
        if row is None:
            return "gone"
        if standing is Held.REFUSED:
            return "refused"
        row.parked, row.held, row.reason = False, False, None  # what could not be read may have been put back
        unit.change_outbound(row, row.ss_status)
        lk1 = str(self._core.lk1(row.object_id))
        unit.ledger.append(self._core.line(Side.HUB, Event.OPERATOR, row, self._act.says("sent again"), lk1=lk1))
        return "resent"

    def committed(self) -> None:
        for row in self._after.wake:
            self._holding.sends.pop(row.object_id, None)
        super().committed()
