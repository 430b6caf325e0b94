"""Acts of an operator or application on a node's own messages, and expiry (PROTOCOL.md S10, section 12)."""

from collections.abc import Callable, Sequence

from semq.engine.core import Core, with_why
from semq.engine.errors import AlreadySent, Cancelled, Expired, NotEnded, NotThere, PayloadGone, TooLate
from semq.engine.sender.deeds import AfterOutbound
from semq.engine.sender.outbound import OutboundRows
from semq.store.rows import Event, Outbound, Reason, Side
from semq.store.unit import ExpiredRows, Needs, Unit
from semq.store.work import COMMITTED, Failed, Steps, work
from semq.umx_t.grids import SenderEvent
from semq.umx_t.locator import LK0
from semq.umx_t.status import SendStatus

Done = Callable[[], None]
EXPIRED = "expired"
EXPIRY_SEARCH_S_MAX = 60.0
FAR_FUTURE = 253_402_300_000_000  # milliseconds: the year 9999
EXPIRED_TEXT = "Its time passed before it was delivered."


class MessageActs:
    """The acts on messages of this node. Only ``remove`` acts on a message that has ended."""

    def __init__(self, core: Core, rows: OutboundRows, expiring: bool) -> None:
        self.core = core
        self.rows = rows
        self._expiring = expiring  #: documents with an expiry may be in the store
        self._busy = False
        self._has_new_expiries = expiring  #: some were submitted since the last search
        self._next_search = core.now()

    def cancel(self, lk0: LK0, done: Done, failed: Failed, why: str = "cancelled") -> None:
        """S10: replace the payload by a void marker. The document ends CANCELLED if the receiver records the marker
        instead. A document of class 1 or 2 is cancelled only before it is sent.

        A row that is already a void marker is sent again, with the new reason.
        """
        self.core.post(self._cancel([lk0], (Cancelled.code, why), done), failed=failed)

    def hold(self, lk0: LK0, held: bool, why: str, done: Done, failed: Failed) -> None:
        """Hold back an unsent message; ``held`` False: release it."""
        self.core.post(self._hold(lk0, held, why, done), failed=failed)

    def resend(self, lk0: LK0, why: str, done: Done, failed: Failed) -> None:
        """Send another copy of a class-3 message that has not ended, or send a held message."""
        self.core.post(self._resend(lk0, why, done), failed=failed)

    def remove(self, lk0: LK0, why: str, done: Done, failed: Failed) -> None:
        """Delete the row and body of a document that has ended."""
        self.core.post(self._remove(lk0, why, done), failed=failed)

    def watch_expiry(self, at: int) -> None:
        """Note the expiry of a submitted document, in milliseconds since 1970 UTC."""
        search_at = self._search_at(at)
        self._next_search = min(self._next_search, search_at) if self._expiring else search_at
        self._expiring = self._has_new_expiries = True

    def _search_at(self, expires_at: int) -> float:
        """Return when to search, in monotonic seconds: in a minute at most, because the wall clock may change."""
        wait_s = (expires_at - self.core.now_ms()) / 1000
        return self.core.now() + min(max(wait_s, 0), EXPIRY_SEARCH_S_MAX)

    def _search_failed(self) -> None:
        self._busy = False

    def _note_search(self, first: int | None, had_new_expiries: bool) -> None:
        """Plan the next search. ``first``: the next expiry in the store.

        If documents were submitted shortly before the last search (``had_new_expiries``) or since then, search soon: a
        search does not find documents accepted in its own transaction.
        """
        self._busy = False
        soon = self.core.now() + self.core.settings.expiry_s
        if had_new_expiries or self._has_new_expiries:
            self._next_search = soon
        elif first is None:
            self._expiring = False
        else:
            self._next_search = max(self._search_at(first), soon)

    def tick(self) -> None:
        now = self.core.now()
        if self._expiring and not self._busy and now >= self._next_search:
            self._busy = True
            self._next_search = now + self.core.settings.expiry_s
            had_new_expiries, self._has_new_expiries = self._has_new_expiries, False
            self.core.post(
                self._find_expired(self.core.now_ms(), had_new_expiries), failed=lambda error: self._search_failed()
            )

    @property
    def next_due(self) -> float | None:
        """Monotonic time of the next search; None if none is planned."""
        return self._next_search if self._expiring and not self._busy else None

    @work
    def _find_expired(self, now_ms: int, had_new_expiries: bool) -> Steps:
        expired, following = ExpiredRows(now_ms, self.core.settings.expiry_rows), ExpiredRows(FAR_FUTURE, 1)
        unit = yield Needs(queries={expired, following})
        expired_lk0s = [row.lk0 for row in unit.outbound_found(expired) if row.outcome is None and not row.void]
        first = next((row.expires_at for row in unit.outbound_found(following)), None)
        yield COMMITTED
        self._note_search(first, had_new_expiries)
        if expired_lk0s:
            self.core.post(self._cancel(expired_lk0s, (Expired.code, EXPIRED_TEXT)))

    # --- work
    @work
    def _cancel(self, lk0s: Sequence[LK0], reason: Reason, done: Done = lambda: None) -> Steps:
        """Withdraw messages, except those for which it is too late. A single message: raises what ``_changeable_row``
        raises.
        """
        ids = {lk0.object_id for lk0 in lk0s}
        is_expiry = reason[0] == Expired.code
        why = EXPIRED if is_expiry else reason[1]
        unit = yield Needs(outbound=ids, bodies=set(ids))
        after = AfterOutbound(self.core.now_ms())
        for lk0 in lk0s:
            try:
                row = self._changeable_row(unit, lk0, SenderEvent.cancel)
            except (NotThere, TooLate, AlreadySent):
                if len(lk0s) == 1:
                    raise
                continue
            if row.void and is_expiry:
                continue  # its marker is on the way
            unit.ledger.append(self.core.line(Side.SENDER, Event.VOIDED, row, why, after.at))
            row.held, row.reason = False, reason
            self.rows.apply_event(unit, row, SenderEvent.cancel, after, why)
        yield COMMITTED
        self.rows.apply(after)
        done()

    @work
    def _resend(self, lk0: LK0, why: str, done: Done) -> Steps:
        unit = yield Needs(outbound={lk0.object_id})
        after = AfterOutbound(self.core.now_ms())
        row = self._changeable_row(unit, lk0, SenderEvent.resend)
        if not (row.has_payload or row.void):
            raise PayloadGone(lk0=str(lk0)).with_remedy(
                "The hub's operator can send the stored copy again: `semq held resend NAME`."
            )
        self._note(unit, row, "resend", why)
        if row.held:
            row.held = False
            unit.change_outbound(row, row.ss_status)
            after.wake.append(row)
        self.rows.apply_event(unit, row, SenderEvent.resend, after, why)
        yield COMMITTED
        self.rows.apply(after)
        done()

    @work
    def _hold(self, lk0: LK0, held: bool, why: str, done: Done) -> Steps:
        unit = yield Needs(outbound={lk0.object_id})
        row = _open_row(unit, lk0)
        if row.ss_status is not SendStatus.SS_INIT:
            raise AlreadySent(lk0=str(lk0), status=row.ss_status.name)
        row.held = held
        unit.change_outbound(row, row.ss_status)
        self._note(unit, row, "held" if held else "released", why)
        yield COMMITTED
        if not held:
            self.rows.pump.wake(row)
        done()

    @work
    def _remove(self, lk0: LK0, why: str, done: Done) -> Steps:
        unit = yield Needs(outbound={lk0.object_id})
        row = _row(unit, lk0)
        if row.outcome is None:
            raise NotEnded(lk0=str(lk0), status=row.ss_status.name)
        self._note(unit, row, "removed", why)
        unit.delete_outbound(row)
        yield COMMITTED
        done()

    def _changeable_row(self, unit: Unit, lk0: LK0, event: SenderEvent) -> Outbound:
        """Return the row of a message that has not ended, and that the event changes, or that was not sent yet.

        Raises NotThere, TooLate, AlreadySent.
        """
        row = _open_row(unit, lk0)
        if row.ss_status is not SendStatus.SS_INIT and self.rows.is_without_effect(row, event):
            raise AlreadySent(lk0=str(lk0), status=row.ss_status.name)
        return row

    def _note(self, unit: Unit, row: Outbound, act: str, why: str) -> None:
        unit.ledger.append(self.core.line(Side.SENDER, Event.OPERATOR, row, with_why(act, why)))


def _row(unit: Unit, lk0: LK0) -> Outbound:
    """Return the row of a message. Raises NotThere."""
    row = unit.outbound.get(lk0.object_id)
    if row is None or row.lk0 != lk0:
        raise NotThere(lk0=str(lk0))
    return row


def _open_row(unit: Unit, lk0: LK0) -> Outbound:
    """Return the row of a message that has not ended. Raises NotThere, TooLate."""
    row = _row(unit, lk0)
    if row.outcome is not None:
        raise TooLate(lk0=str(lk0), outcome=row.outcome.name)
    return row
