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

from semq.engine.errors import Returned
from semq.engine.hub.copies import STATUS, OnCopies, standing_of
from semq.store.rows import Event, Outbound, Reason, Side, Stored
from semq.store.unit import Unit
from semq.umx_t.grids import HUB, Held, HubHeard
from semq.umx_t.status import SendStatus

if TYPE_CHECKING:
    from semq.engine.hub.custody import Holding, Notice

Counts = Counter[str]
REASON_MAX = 500  # characters
NOT_SENT = " (this store had not sent it)"
NOBODY = "its sender is no longer served: there is nobody to tell"


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody does, and why. ``done`` hears how many rows met which fate, once that is committed."""

    by: str  #: a user of the node
    why: str
    done: Callable[[Counts], None]
    failed: Callable[[Exception], None]

    def says(self, what: str, more: str = "") -> str:
        """For the ledger, and for the sender."""
        return f"{what} by {self.by}: {self.why}"[: REASON_MAX - len(more)] + more


class Refusing:
    """The acts."""

    def __init__(self, holding: "Holding") -> None:
        self.holding = holding

    def refuse(self, rows: Sequence[int], act: Act, *, only_copies: bool = False) -> None:
        """H16: give copies up; their senders are told, with the reason.

        ``only_copies``: also those whose sender has given its own payload away for custody (``@Ack2=0``). A void
        marker is refused only where there is no target that could answer it. Counts ``refused``, ``repeated`` (refused
        before, told again), ``only_copy`` and ``marker`` (left alone), ``gone``.
        """
        self.holding.core.post(_Refuse(self.holding, rows, act, only_copies))

    def resend(self, rows: Sequence[int], act: Act) -> None:
        """H18: send copies once more, also parked ones. Counts ``resent``, ``refused`` (left alone), ``gone``."""
        self.holding.core.post(_Resend(self.holding, rows, act))


class _OnMany(OnCopies):
    def __init__(self, holding: "Holding", rows: Sequence[int], act: Act) -> None:
        super().__init__(holding, holding.core.address)
        self._act = act
        self._ids = rows
        self.needs.outbound.update(rows)

    def decide(self, unit: Unit) -> None:
        self._begin()
        self._counts: Counts = Counter()
        for object_id in self._ids:
            row = unit.outbound.get(object_id)
            if row is None:
                HUB.step(Held.ABSENT, self.news)
            self._counts["gone" if row is None else self._one(unit, row)] += 1

    news: HubHeard

    def _one(self, unit: Unit, row: Outbound) -> str:
        raise NotImplementedError

    def _line(self, unit: Unit, event: Event, row: Outbound, detail: str) -> None:
        unit.ledger.append(self._core.line(Side.HUB, event, row, detail, lk1=str(self._core.lk1(row.object_id))))

    def committed(self) -> None:
        super().committed()
        self._act.done(self._counts)

    def failed(self, error: Exception) -> None:
        self._act.failed(error)


class _Refuse(_OnMany):
    news = HubHeard.refuse

    def __init__(self, holding: "Holding", rows: Sequence[int], act: Act, only_copies: bool) -> None:
        super().__init__(holding, rows, act)
        self._only_copies = only_copies

    def _begin(self) -> None:
        super()._begin()
        self._told: list[tuple[Outbound, Notice]] = []

    def _one(self, unit: Unit, row: Outbound) -> str:
        directory = self._holding.directory
        is_told = directory.serves(row.lk0.node)
        before = standing_of(row)
        if before is not Held.REFUSED:
            if row.void and directory.serves(row.target.node):
                return "marker"
            if not (row.ack2 or row.void or self._only_copies):
                return "only_copy"
        HUB.step(before, self.news)
        if before is not Held.REFUSED:
            self._refuse(unit, row)
        if is_told:
            self._told.append((row, self._holding.refusal(row)))
        else:
            self._hear(unit, row, HubHeard.noted, NOBODY)
        return "repeated" if before is Held.REFUSED else "refused"

    def _refuse(self, unit: Unit, row: Outbound) -> None:
        """The payload goes, the row stays: SS_SENT, so that the clock comes to it; held, so that nothing is sent."""
        before = row.ss_status
        sent = "" if row.att else NOT_SENT
        reason: Reason = (Returned.code, self._act.says("refused at the platform", sent))
        row.ss_status, row.held, row.parked, row.reason = SendStatus.SS_SENT, True, False, reason
        row.has_payload, row.size = False, 0
        unit.change_outbound(row, before)
        unit.replace_body(row.object_id, Stored(b"", b""))
        self._line(unit, Event.OPERATOR, row, self._act.says("refused"))
        self._line(unit, Event.REFUSED, row, " ".join(reason))

    def committed(self) -> None:
        super().committed()
        for row, _ in self._told:
            self._holding.landed(row)
            self._holding.watch(row)
        self._holding.tell(notice for _, notice in self._told)
        self._core.count("refused_by_operator", self._counts["refused"])


class _Resend(_OnMany):
    news = HubHeard.resend

    def _one(self, unit: Unit, row: Outbound) -> str:
        standing = standing_of(row)
        rule = HUB.step(standing, self.news)
        if standing is Held.REFUSED:
            return "refused"
        before = row.ss_status
        row.ss_status, row.parked = STATUS[rule.after], False
        row.held, row.reason = False, None  # what could not be read may have been put back
        unit.change_outbound(row, before)
        self._wake.append(row)
        self._line(unit, Event.OPERATOR, row, self._act.says("sent again"))
        return "resent"

    def committed(self) -> None:
        for row in self._wake:
            self._holding.sends.pop(row.object_id, None)
        super().committed()
