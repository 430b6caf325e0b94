"""Acts of a person, or of the clock, on a node's own messages: cancel, expire, hold, release.

See PROTOCOL.md sections 11 and 12.
"""

from collections.abc import Callable, Sequence

from semq.engine.core import Core, Step, with_why
from semq.engine.errors import AlreadySent, Cancelled, Expired, NotEnded, NotThere, PayloadGone, TooLate
from semq.engine.sender.deeds import AfterOutbound
from semq.engine.sender.outbound import OutboundRows
from semq.store.rows import Event, Outbound, Side
from semq.store.unit import ExpiredRows, Unit
from semq.umx_t.grids import Heard
from semq.umx_t.locator import LK0
from semq.umx_t.status import SendStatus

Done = Callable[[], None]
Failed = Callable[[Exception], None]
EXPIRED = "expired"
EXPIRY_LOOK_S_MAX = 60.0
FAR_FUTURE = 253_402_300_000_000  # milliseconds: the end of the year 9999
PASSED = "Its time passed before it was delivered."


class Operating:
    """Acts on own messages that have not ended."""

    def __init__(self, core: Core, rows: OutboundRows, expiring: bool) -> None:
        self.core = core
        self.rows = rows
        self._expiring = expiring  #: whether documents with an expiry may be in the store
        self._busy = False
        self._is_fresh = expiring
        self._next_look = core.now()

    def cancel(self, lk0: LK0, done: Done, failed: Failed, why: str = "cancelled") -> None:
        """S10: replace the payload by a void marker; whichever reaches the receiver's ledger first wins.

        What is a marker already (it was cancelled, refused or expired before) goes out anew, as one that was cancelled.
        """
        self.core.post(_Cancel(self, [lk0], why, done, failed))

    def hold(self, lk0: LK0, held: bool, why: str, done: Done, failed: Failed) -> None:
        """Keep a message from being sent, or release it."""
        self.core.post(_Hold(self, lk0, held, why, done, failed))

    def resend(self, lk0: LK0, why: str, done: Done, failed: Failed) -> None:
        """Send another copy of a message that has not ended: same id, same bytes, harmless if it has arrived."""
        self.core.post(_ResendOwn(self, lk0, why, done, failed))

    def remove(self, lk0: LK0, why: str, done: Done, failed: Failed) -> None:
        """A person has dealt with a refused document: its row and body go, the ledger keeps its story."""
        self.core.post(_Remove(self, lk0, why, done, failed))

    def watch_expiry(self, at: int) -> None:
        """A document was accepted that expires at this time, in milliseconds since 1970 UTC."""
        look = self._look_at(at)
        self._next_look = min(self._next_look, look) if self._expiring else look
        self._expiring = self._is_fresh = True

    def _look_at(self, expires_at: int) -> float:
        """When to look for a document that expires; again after a while, since the wall clock may be put forward."""
        wait_s = (expires_at - self.core.now_ms()) / 1000
        return self.core.now() + min(max(wait_s, 0), EXPIRY_LOOK_S_MAX)

    def looked(self, first: int | None, was_fresh: bool) -> None:
        """A look has ended; ``first`` of the documents that it found expires next, None if there is none.

        What was accepted since the look before may share its transaction, unseen: then there is one more look.
        """
        self._busy = False
        soon = self.core.now() + self.core.settings.expiry_s
        if was_fresh or self._is_fresh:
            self._next_look = soon
        elif first is None:
            self._expiring = False
        else:
            self._next_look = max(self._look_at(first), soon)

    def tick(self) -> None:
        """Look for documents that have expired."""
        now = self.core.now()
        if self._expiring and not self._busy and now >= self._next_look:
            self._busy = True
            self._next_look = now + self.core.settings.expiry_s
            was_fresh, self._is_fresh = self._is_fresh, False
            self.core.post(_FindExpired(self, was_fresh))

    @property
    def next_due(self) -> float | None:
        """When ``tick`` has something to do, or None."""
        return self._next_look if self._expiring and not self._busy else None


class _FindExpired(Step):
    def __init__(self, operating: Operating, was_fresh: bool) -> None:
        super().__init__()
        self._operating = operating
        self._was_fresh = was_fresh
        self._query = ExpiredRows(operating.core.now_ms(), operating.core.settings.ask_rows)
        self._next = ExpiredRows(FAR_FUTURE, 1)
        self.needs.queries |= {self._query, self._next}

    def decide(self, unit: Unit) -> None:
        self._found = [row.lk0 for row in unit.outbound_found(self._query) if row.outcome is None and not row.void]
        self._first = next((row.expires_at for row in unit.outbound_found(self._next)), None)

    def committed(self) -> None:
        operating = self._operating
        operating.looked(self._first, self._was_fresh)
        if self._found:
            operating.core.post(_Cancel(operating, self._found, EXPIRED, lambda: None, lambda error: None))

    def failed(self, error: Exception) -> None:
        self._operating._busy = False


class _Cancel(Step):
    def __init__(self, operating: Operating, lk0s: Sequence[LK0], why: str, done: Done, failed: Failed) -> None:
        super().__init__()
        self._operating = operating
        self._lk0s = lk0s
        self._why = why
        self._done = done
        self._failed = failed
        self.needs.outbound.update(lk0.object_id for lk0 in lk0s)
        self.needs.bodies.update(lk0.object_id for lk0 in lk0s)

    def decide(self, unit: Unit) -> None:
        self._after = AfterOutbound(self._operating.core.now_ms())
        core = self._operating.core
        for lk0 in self._lk0s:
            row = unit.outbound.get(lk0.object_id)
            if row is None or row.lk0 != lk0:
                if len(self._lk0s) == 1:
                    raise NotThere(lk0=str(lk0))
                continue
            if row.outcome is not None:
                if len(self._lk0s) == 1:
                    raise TooLate(lk0=str(lk0), outcome=row.outcome.name)
                continue
            if row.void and self._why == EXPIRED:
                continue  # its marker is on the way
            unit.ledger.append(core.line(Side.SENDER, Event.VOIDED, row, self._why, self._after.at))
            row.held = False
            row.reason = (Expired.code, PASSED) if self._why == EXPIRED else (Cancelled.code, self._why)
            self._operating.rows.hear(unit, row, Heard.cancel, self._after, self._why)

    def committed(self) -> None:
        self._operating.rows.apply(self._after)
        self._done()

    def failed(self, error: Exception) -> None:
        self._failed(error)


class _OnOne(Step):
    """A person's act on one message that has not ended."""

    def __init__(self, operating: Operating, lk0: LK0, why: str, done: Done, failed: Failed) -> None:
        super().__init__()
        self._operating = operating
        self._lk0 = lk0
        self._why = why
        self._done = done
        self._failed = failed
        self.needs.outbound.add(lk0.object_id)

    def _row(self, unit: Unit) -> Outbound:
        row = unit.outbound.get(self._lk0.object_id)
        if row is None or row.lk0 != self._lk0:
            raise NotThere(lk0=str(self._lk0))
        if row.outcome is not None:
            raise TooLate(lk0=str(self._lk0), outcome=row.outcome.name)
        return row

    def _note(self, unit: Unit, row: Outbound, what: str) -> None:
        unit.ledger.append(self._operating.core.line(Side.SENDER, Event.OPERATOR, row, with_why(what, self._why)))

    def failed(self, error: Exception) -> None:
        self._failed(error)


class _ResendOwn(_OnOne):
    def decide(self, unit: Unit) -> None:
        self._after = AfterOutbound(self._operating.core.now_ms())
        row = self._row(unit)
        if not (row.has_payload or row.void):
            raise PayloadGone(lk0=str(self._lk0)).with_remedy(
                "The platform's operator can send the copy again that is stored there: `semq held resend NAME`."
            )
        self._note(unit, row, "resend")
        row.held = False
        self._operating.rows.hear(unit, row, Heard.resend, self._after, self._why)

    def committed(self) -> None:
        self._operating.rows.apply(self._after)
        self._done()


class _Hold(_OnOne):
    def __init__(self, operating: Operating, lk0: LK0, held: bool, why: str, done: Done, failed: Failed) -> None:
        super().__init__(operating, lk0, why, done, failed)
        self._held = held

    def decide(self, unit: Unit) -> None:
        row = self._target = self._row(unit)
        if row.ss_status is not SendStatus.SS_INIT:
            raise AlreadySent(lk0=str(self._lk0), status=row.ss_status.name)
        row.held = self._held
        unit.change_outbound(row, row.ss_status)
        self._note(unit, row, "held" if self._held else "released")

    def committed(self) -> None:
        if not self._held:
            self._operating.rows.pump.wake(self._target)
        self._done()


class _Remove(_OnOne):
    def decide(self, unit: Unit) -> None:
        row = unit.outbound.get(self._lk0.object_id)
        if row is None or row.lk0 != self._lk0:
            raise NotThere(lk0=str(self._lk0))
        if row.outcome is None:
            raise NotEnded(lk0=str(self._lk0), status=row.ss_status.name)
        self._note(unit, row, "removed")
        unit.delete_outbound(row)

    def committed(self) -> None:
        self._done()
