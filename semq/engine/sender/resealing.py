"""Resealing: documents that a receiver refused because of a missing key are sent again, as new messages (PROTOCOL.md
section 12).

The refused message stays REJECTED in the ledger. The same ciphertext is sent under a new LK0, with its session key
wrapped for the receiver's present certificate and signed with this node's present key. A document of class 1 or 2 in
clear is signed again, if the refusal names an older key of this node. With an order key, the new message is the last of
its sequence.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace
from msgspec.structs import replace as replace_row

from semq.engine.core import Core
from semq.engine.ports import Secrecy
from semq.engine.sender.accepted_lines import accepted_detail
from semq.engine.sender.endings import REFUSALS
from semq.engine.sender.outbound import OutboundRows
from semq.engine.sender.positions import next_position, take_position
from semq.engine.stored_envelopes import decode_envelope, encode_envelope
from semq.errors import SemqError
from semq.seal.errors import SignerGone
from semq.store.rows import Event, KeptKey, LedgerLine, OrderKey, Outbound, OutStreamKey, Side, Stored
from semq.store.unit import KeptKeys, Needs, RefusedBy, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.locator import LK0
from semq.umx_t.pieces import PIECES_USER, document_detail
from semq.umx_t.status import SendStatus

ANEW_MAX = 10_000  # bound of ``_signed_anew``; beyond it an operator decides
KEPT_MAX = 5000  # session keys of one partner that one search reads


class Resealing:
    """Searches for documents that a partner has refused, and replaces them by new messages."""

    def __init__(self, core: Core, rows: OutboundRows, secrecy: Secrecy) -> None:
        self._core = core
        self._rows = rows
        self._secrecy = secrecy
        #: Nodes for which refused documents are searched; True: search again afterwards.
        self._searches: dict[str, bool] = {}
        self._signed_anew: dict[LK0, str] = {}  #: new messages in clear, with the key that signed them (volatile)

    def search(self, dest: str) -> None:
        """Search for refused documents to a node, and send them again."""
        if dest in self._searches:
            self._searches[dest] = True
        else:
            self._searches[dest] = False
            self._search_after(dest, dict.fromkeys(REFUSALS, 0))

    def _search_after(self, dest: str, after: Mapping[str, int]) -> None:
        self._core.post(self._find_refused(dest, after), failed=lambda error: self._ended(dest))

    def _ended(self, dest: str) -> None:
        if self._searches.pop(dest):
            self.search(dest)

    @work
    def _find_refused(self, dest: str, after: Mapping[str, int]) -> Steps:
        """Find the next refused rows for each code of REFUSALS. ``after``: the last row already tried, by code."""
        limit = self._core.settings.claim_rows
        queries = {code: RefusedBy(dest, code, last, limit) for code, last in after.items()}
        unit = yield Needs(queries=set(queries.values()))
        found = {code: list(unit.outbound_found(query)) for code, query in queries.items()}
        rows = [(row.object_id, row.order_key) for refused in found.values() for row in refused]
        following = {code: refused[-1].object_id for code, refused in found.items() if refused}
        yield COMMITTED
        if rows:
            self._core.post(self._send_again(dest, rows, following), failed=lambda error: self._ended(dest))
        else:
            self._ended(dest)

    @work
    def _send_again(self, dest: str, rows: Sequence[tuple[int, str]], following: Mapping[str, int]) -> Steps:
        """Replace refused rows, given by number and order key, by new ones; then search after them."""
        numbers = [object_id for object_id, _ in rows]
        query = KeptKeys(dest, KEPT_MAX)
        unit = yield Needs(
            outbound=set(numbers),
            bodies=set(numbers),
            queries={query},
            out_streams={OutStreamKey(dest, self._core.inc)},
            last_pos={OrderKey(dest, order_key) for _, order_key in rows if order_key},
        )
        kept = {row.id: row for row in unit.found.get(query, ())}
        sent: list[Outbound] = []
        signed: list[LK0] = []
        for object_id in numbers:
            row = unit.outbound.get(object_id)
            code = row.reason[0] if row is not None and row.reason is not None else ""
            if row is None or code not in REFUSALS or not row.has_payload or row.target.user == PIECES_USER:
                continue  # a piece is sent again from its document
            try:
                new = self._replace_refused(unit, row, kept, code)
            except SemqError as error:  # this node has deleted the key: the document has to be submitted again
                self._core.note_violation(unit, Side.SENDER, error, str(row.lk0), dest)
                continue
            if new is not None:
                sent.append(new)
                signed += [new.lk0] if _is_in_clear(unit.bodies[new.object_id]) else []
        yield COMMITTED
        self._rows.unsettled[dest] = self._rows.unsettled.get(dest, 0) + len(sent)
        if sent:
            self._core.count("sealed_again", len(sent))
        for lk0 in signed:
            self._signed_anew[lk0] = self._secrecy.signing_key()
        for row in sent:
            self._rows.pump.wake(row)
        self._search_after(dest, following)

    def _replace_refused(self, unit: Unit, old: Outbound, kept: dict[bytes, KeptKey], code: str) -> Outbound | None:
        """Replace a refused message by a new one, and return the new row. None: no newer key is known, the session key
        is no longer kept, or ``_may_sign_anew`` is false.
        """
        stored, at = unit.bodies[old.object_id], self._core.now_ms()
        envelope = decode_envelope(stored)
        in_clear = not envelope.session_key
        key = None if in_clear else kept.get(self._secrecy.session_of(envelope))
        if not self._may_sign_anew(old) if in_clear else key is None:
            return None
        lk0, stream = self._core.new_lk0(), OutStreamKey(old.dest, self._core.inc)
        row = replace_row(
            old, object_id=lk0.object_id, lk0=lk0, ss_status=SendStatus.SS_INIT, att=0, sid=-1, prev=None,
            custodian=None, void=False, lost=False, outcome=None, reason=None, accepted_at=at,
        )  # fmt: skip
        sid, prev = next_position(unit, row, stream) if old.sid >= 0 else (-1, None)
        new = replace(
            envelope, source=self._core.address, lk0=lk0, sid=sid, prev=prev, att=0, floor=0, lk1=None,
            void=False,
        )  # fmt: skip
        again = new if key is None else self._secrecy.wrap_again(envelope, key, new, code)
        if again is None:
            return None
        if old.sid >= 0:
            take_position(unit, row, stream)
        unit.insert_outbound(row, Stored(encode_envelope(again), stored.payload))
        unit.delete_outbound(old)
        pieces = envelope.attributes.pieces
        how = f"signed with key {self._secrecy.signing_key()}" if in_clear else f"sealed for key {again.key_id}"
        unit.ledger += (
            LedgerLine(
                at, Side.SENDER, Event.ACCEPTED, str(lk0), str(row.target), 0, "", row.app_key, row.digest,
                row.size, accepted_detail(row, (f"the document of {old.lk0}", how, pieces and document_detail(pieces))),
            ),
            self._core.line(Side.SENDER, Event.OPERATOR, old, f"continues as {lk0}", at),
        )  # fmt: skip
        return row

    def _may_sign_anew(self, row: Outbound) -> bool:
        """Whether to sign a refused document in clear with the present key: it was signed with another key, the present
        key was not tried yet, and ``_signed_anew`` has room.
        """
        key, refused = self._secrecy.signing_key(), SignerGone.key_in(row.reason[1] if row.reason is not None else "")
        if not key or refused in ("", key) or self._signed_anew.get(row.lk0) == key:
            return False
        if len(self._signed_anew) >= ANEW_MAX:
            self._signed_anew = {lk0: under for lk0, under in self._signed_anew.items() if under == key}
        return len(self._signed_anew) < ANEW_MAX


def _is_in_clear(stored: Stored) -> bool:
    return not decode_envelope(stored).session_key
