"""Documents that a receiver refused for want of a key, its own or the signer's: sent again by this node itself.

PROTOCOL.md sections 12 and 18: the refused message stays what it is (REJECTED, its application was told); the same
ciphertext goes out as a new message, under a new LK0, its session key wrapped for the receiver's present certificate
and signed with our own present one. What was refused in clear (class 2, which its receiver refuses by name) goes out as
a new message in clear, signed with our present key when it leaves, if the refusal names another one.
Both ledgers link the two. Looked for when such a refusal is heard, and when the directory tells of another certificate
of a partner, so a crash at any moment delays it to the next session at most. A partner that refuses the present key too
is not asked again until the directory tells of another one: no document goes round in circles.

In an order, the new message takes its place at the end: what was sent after the refused one may overtake it.
"""

from collections.abc import Mapping
from dataclasses import replace as replace_row

from msgspec.structs import replace

from semq.engine.bodies import decode_envelope, encode_envelope
from semq.engine.core import Core, Step
from semq.engine.ports import Secrecy
from semq.engine.sender.outbound import OutboundRows
from semq.engine.sender.positions import take_position
from semq.errors import SemqError
from semq.seal.errors import KeyUnknown, SignerGone
from semq.store.rows import Event, KeptKey, LedgerLine, OrderKey, Outbound, OutStreamKey, Rare, Side, Stored
from semq.store.unit import KeptKeys, RefusedBy, Unit
from semq.umx_t.locator import LK0
from semq.umx_t.status import SendStatus

ANEW_MAX = 10_000  # messages in clear that are known to have been signed again; beyond that a person decides
KEPT_MAX = 5000  # session keys of one partner that are looked through
REFUSALS = (KeyUnknown.code, SignerGone.code)


class Rewrapping:
    """Looks for refused documents of a partner, and sends them again."""

    def __init__(self, core: Core, rows: OutboundRows, secrecy: Secrecy) -> None:
        self.core = core
        self.rows = rows
        self.secrecy = secrecy
        self._looking: dict[str, bool] = {}  #: nodes whose documents are looked at; True: then once more
        self._signed_anew: dict[LK0, str] = {}  #: new messages in clear, and with which key of ours (volatile)

    def look(self, dest: str) -> None:
        """Something may have changed for refused documents to a node."""
        if dest in self._looking:
            self._looking[dest] = True
        else:
            self._looking[dest] = False
            self.core.post(_Find(self, dest, dict.fromkeys(REFUSALS, 0)))

    def may_sign_anew(self, row: Outbound) -> bool:
        """Whether another message in clear may be believed: signed with another key than the one that was refused.

        A partner that names an old key once more for what was signed with the present one is not believed.
        """
        key, refused = self.secrecy.signing_key(), SignerGone.key_in(row.reason[1] if row.reason is not None else "")
        if not key or refused in ("", key) or self._signed_anew.get(row.lk0) == key:
            return False
        if len(self._signed_anew) >= ANEW_MAX:
            self._signed_anew = {lk0: under for lk0, under in self._signed_anew.items() if under == key}
        return len(self._signed_anew) < ANEW_MAX

    def signed_anew(self, lk0: LK0) -> None:
        """A message is committed that sends a refused document in clear again."""
        self._signed_anew[lk0] = self.secrecy.signing_key()

    def looked(self, dest: str) -> None:
        """Every refused document has been looked at, or the store has failed."""
        if self._looking.pop(dest):
            self.look(dest)


class _Find(Step):
    """The next refusals of each kind: those that still have to wait, perhaps for ever, are passed by."""

    def __init__(self, rewrapping: Rewrapping, dest: str, after: Mapping[str, int]) -> None:
        super().__init__()
        self._rewrapping = rewrapping
        self._dest = dest
        self._after = after
        limit = rewrapping.core.settings.claim_rows
        self._queries = {code: RefusedBy(dest, code, last, limit) for code, last in after.items()}
        self.needs.queries.update(self._queries.values())

    def decide(self, unit: Unit) -> None:
        found = {code: list(unit.outbound_found(query)) for code, query in self._queries.items()}
        self._rows = [row for rows in found.values() for row in rows]
        self._next = {code: rows[-1].object_id for code, rows in found.items() if rows}

    def committed(self) -> None:
        if self._rows:
            self._rewrapping.core.post(_SendAgain(self._rewrapping, self._dest, self._rows, self._next))
        else:
            self._rewrapping.looked(self._dest)

    def failed(self, error: Exception) -> None:
        self._rewrapping.looked(self._dest)


class _SendAgain(Step):
    """Replaces refused rows by new ones, in one commit for each look; then looks behind them."""

    def __init__(self, rewrapping: Rewrapping, dest: str, rows: list[Outbound], after: Mapping[str, int]) -> None:
        super().__init__()
        self._after = after
        self._rewrapping = rewrapping
        self._core = rewrapping.core
        self._dest = dest
        self._ids = [row.object_id for row in rows]
        self._kept = KeptKeys(dest, KEPT_MAX)
        self._stream = OutStreamKey(dest, self._core.inc)
        self.needs.outbound.update(self._ids)
        self.needs.bodies.update(self._ids)
        self.needs.queries.add(self._kept)
        self.needs.out_streams.add(self._stream)
        self.needs.last_pos.update(OrderKey(dest, row.order_key) for row in rows if row.order_key)

    def decide(self, unit: Unit) -> None:
        self._sent: list[Outbound] = []
        self._signed: list[LK0] = []
        self._at = self._core.now_ms()
        kept = {row.id: row for row in unit.found.get(self._kept, ())}
        for object_id in self._ids:
            row = unit.outbound.get(object_id)
            code = row.reason[0] if row is not None and row.reason is not None else ""
            if row is not None and code in REFUSALS and row.has_payload:
                try:
                    self._again(unit, row, kept, code)
                except SemqError as error:  # our own key for it is gone: a person has to hand the document over anew
                    self._core.violation(unit, Side.SENDER, error, str(row.lk0), self._dest)

    def _again(self, unit: Unit, old: Outbound, kept: dict[bytes, KeptKey], code: str) -> None:
        stored = unit.bodies[old.object_id]
        envelope = decode_envelope(stored)
        in_clear = not envelope.session_key
        key = None if in_clear else kept.get(self._rewrapping.secrecy.session_of(envelope))
        if not self._rewrapping.may_sign_anew(old) if in_clear else key is None:
            return
        lk0 = self._core.new_lk0()
        row = replace_row(
            old, object_id=lk0.object_id, lk0=lk0, ss_status=SendStatus.SS_INIT, att=0, sid=-1, prev=None, token=None,
            custodian=None, void=False, lost=False, outcome=None, reason=None, accepted_at=self._at,
        )  # fmt: skip
        stream = unit.out_streams.get(self._stream)
        place = (stream.next_sid if stream is not None else 0) if old.sid >= 0 else -1
        prev = unit.last_pos.get(OrderKey(self._dest, old.order_key)) if old.order_key else None
        new = replace(
            envelope, source=self._core.address, lk0=lk0, sid=place, prev=prev, att=0, floor=0, lk1=None,
            void=False,
        )  # fmt: skip
        again = new if key is None else self._rewrapping.secrecy.wrap_again(envelope, key, new, code)
        if again is None:
            return
        if old.sid >= 0:
            take_position(unit, row, self._stream)
        unit.insert_outbound(row, Stored(encode_envelope(again), stored.payload))
        unit.delete_outbound(old)
        self._sent.append(row)
        how = f"sealed for key {again.key_id}"
        if in_clear:
            self._signed.append(lk0)
            how = f"signed with key {self._rewrapping.secrecy.signing_key()}"
        unit.ledger += (
            LedgerLine(
                self._at, Side.SENDER, Event.ACCEPTED, str(lk0), str(row.target), 0, "", row.app_key, row.digest,
                row.size, f"the document of {old.lk0}, {how}",
            ),
            self._core.line(Side.SENDER, Event.OPERATOR, old, f"goes on as {lk0}", self._at),
        )  # fmt: skip

    def committed(self) -> None:
        rows = self._rewrapping.rows
        for _ in self._sent:
            rows.unsettled[self._dest] = rows.unsettled.get(self._dest, 0) + 1
        if self._sent:
            self._core.count("sealed_again", len(self._sent))
        for lk0 in self._signed:
            self._rewrapping.signed_anew(lk0)
        for row in self._sent:
            rows.pump.wake(row)
        self._core.post(_Find(self._rewrapping, self._dest, self._after))

    def failed(self, error: Exception) -> None:
        self._rewrapping.looked(self._dest)


class Remember(Step):
    """Rows that record what was heard."""

    def __init__(self, rows: list[Rare]) -> None:
        super().__init__()
        self._rows = rows

    def decide(self, unit: Unit) -> None:
        unit.rare.extend(self._rows)
