"""Acts of an operator of the hub on stored copies: refuse them, send them again (PROTOCOL.md H16, H18).

A refusal deletes the payload and keeps the row until the sender has noted it (H17). If operator and target act at the
same time, the order of the transactions decides.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from msgspec import Struct

from semq.engine.hub.custody import Custody
from semq.engine.hub.deeds import AfterCopies, RefusalVerdict, copy_state, note
from semq.foreign_text import shortened
from semq.store.rows import Event, Outbound
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Failed, Steps, work
from semq.umx_t.grids import CopyState, HubEvent

Counts = Counter[str]
REASON_MAX = 500  # characters
NOT_SENT = " (this store of the hub had not sent it yet)"
NOBODY = "its sender is no longer served, so no refusal is sent"


class ActOnCopies(Struct, frozen=True):
    """An act of an operator, with its reason; ``done`` gets the number of rows by result, after the commit."""

    by: str  #: name of the operator, a user of the node
    why: str
    done: Callable[[Counts], None]
    failed: Failed

    def remark(self, what: str, more: str = "") -> str:
        """Return the act as one text, for the ledger and for the sender."""
        return shortened(f"{what} by {self.by}: {self.why}", REASON_MAX - len(more)) + more


class CopyActs:
    """The acts of operators on copies."""

    def __init__(self, custody: Custody) -> None:
        self._custody = custody
        self._core = custody.core

    def refuse(self, rows: Sequence[int], act: ActOnCopies, *, only_copies: bool = False) -> None:
        """H16: refuse copies, and send their senders the reason.

        ``only_copies``: refuse also copies whose sender has deleted its own payload (``@Ack2=0``). A void marker is
        refused only if its target is not served any more, or did not record it in many attempts (``parked``).
        Counts ``refused``, ``repeated`` (refused before, reported again), ``only_copy`` and ``marker`` (unchanged),
        ``gone``.
        """
        self._core.post(self._refuse(rows, act, only_copies), failed=act.failed)

    def resend(self, rows: Sequence[int], act: ActOnCopies) -> None:
        """H18: send copies once more, also parked ones. Counts ``resent``, ``refused`` (unchanged), ``gone``."""
        self._core.post(self._resend(rows, act), failed=act.failed)

    @work
    def _refuse(self, rows: Sequence[int], act: ActOnCopies, only_copies: bool) -> Steps:
        what = "refused at the hub"
        verdict = RefusalVerdict(act.remark("refused"), act.remark(what), act.remark(what, NOT_SENT))
        unit = yield Needs(outbound=set(rows))
        after = AfterCopies()
        counts = Counter(
            self._refused(unit, unit.outbound.get(object_id), verdict, after, only_copies) for object_id in rows
        )
        yield COMMITTED
        self._custody.apply(after)
        act.done(counts)
        self._core.count("refused_by_operator", counts["refused"])

    def _refused(
        self, unit: Unit, row: Outbound | None, verdict: RefusalVerdict, after: AfterCopies, only_copies: bool
    ) -> str:
        """Refuse a copy; return the name of its count."""
        directory, is_repeated = self._custody.directory, copy_state(row) is CopyState.REFUSED
        if row is not None and not is_repeated:
            if row.void and not row.parked and directory.serves(row.target.node):
                return "marker"
            if not (row.ack2 or row.void or only_copies):
                return "only_copy"
        self._custody.apply_event(unit, row, HubEvent.refuse, after, verdict)
        if row is None:
            return "gone"
        if not directory.serves(row.lk0.node):
            self._custody.apply_event(unit, row, HubEvent.noted, after, detail=NOBODY)
        return "repeated" if is_repeated else "refused"

    @work
    def _resend(self, rows: Sequence[int], act: ActOnCopies) -> Steps:
        unit = yield Needs(outbound=set(rows))
        after = AfterCopies()
        counts = Counter(self._resent(unit, unit.outbound.get(object_id), act, after) for object_id in rows)
        yield COMMITTED
        for row in after.wake:
            self._custody.forget_sends(row)
        self._custody.apply(after)
        act.done(counts)

    def _resent(self, unit: Unit, row: Outbound | None, act: ActOnCopies, after: AfterCopies) -> str:
        """Send a copy again; return the name of its count."""
        state = self._custody.apply_event(unit, row, HubEvent.resend, after)
        if row is None:
            return "gone"
        if state is CopyState.REFUSED:
            return "refused"
        row.parked, row.held, row.reason = False, False, None  # an unreadable body may have been restored
        unit.change_outbound(row, row.ss_status)
        note(self._core, unit, Event.OPERATOR, row, act.remark("sent again"))
        return "resent"
