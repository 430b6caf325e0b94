"""Statements of one node about rows of this sender, and the check that it may make them (PROTOCOL.md section 5.1).

Only the receiver of a message may state its arrival, at the message's own position; only the hub may state forwarding
and custody. Another statement is noted as a violation and changes nothing.
"""

from collections.abc import Iterable
from typing import NamedTuple

from semq.engine.core import Core
from semq.engine.errors import Mismatch, NotYours
from semq.engine.ports import PacketProof
from semq.engine.sender.deeds import AfterOutbound
from semq.engine.sender.endings import REFUSALS
from semq.engine.sender.outbound import is_open
from semq.engine.sender.sender import Sender
from semq.errors import SemqError
from semq.store.rows import Outbound, Reason, Side
from semq.store.unit import Unit
from semq.umx_t.address import Address
from semq.umx_t.grids import SenderEvent
from semq.umx_t.locator import LK0, parse_lk0
from semq.umx_t.status import Arrival

Fault = tuple[str, SemqError]  #: the ident of a record, and what is wrong with it


class SpeakingNode(NamedTuple):
    """The node that makes a statement; ``proof`` is None if no signature was checked."""

    source: Address
    proof: PacketProof | None = None


def own_lk0s(core: Core, source: Address, idents: Iterable[str]) -> tuple[list[LK0 | None], list[Fault]]:
    """Return the locator of each record (None: it names no message of this store), and the faults."""
    lk0s: list[LK0 | None] = []
    faults: list[Fault] = []
    for ident in idents:
        try:
            lk0 = parse_lk0(ident)
            if lk0.store != core.own_store:
                raise NotYours("A record names a message that was not accepted here.", lk0=ident, peer=str(source))
        except SemqError as error:
            faults.append((ident, error))
            lk0s.append(None)
        else:
            lk0s.append(lk0)
    return lk0s, faults


class Statements:
    """The statements of one node in one unit."""

    def __init__(self, sender: Sender, speaker: SpeakingNode, unit: Unit, faults: Iterable[Fault]) -> None:
        self.sender = sender
        self.core = sender.core
        self.source, self.proof = speaker
        self.unit = unit
        self.after = AfterOutbound(self.core.now_ms())
        for ident, error in faults:
            self.note_violation(error, ident)

    def note_violation(self, error: SemqError, ident: str) -> None:
        self.core.note_violation(self.unit, Side.SENDER, error, ident, str(self.source))

    def row(self, lk0: LK0) -> Outbound | None:
        """Return the row of a message; None if it is gone, or its number belongs to another message (rule N6)."""
        row = self.unit.outbound.get(lk0.object_id)
        return row if row is not None and row.lk0 == lk0 else None

    def is_target(self, row: Outbound | None, lk0: LK0) -> bool:
        """Whether the node is the receiver of the message; True without a row, because nothing changes then."""
        if row is None or row.target.node == self.source:
            return True
        self.note_violation(NotYours(lk0=str(lk0), peer=str(self.source), target=str(row.target)), str(lk0))
        return False

    def names_position(self, row: Outbound | None, sid: int) -> bool:
        """Whether the statement names the position of this message; True without a row.

        A signature is not enough: a hub that inquires with this LK0 and another position gets a signed statement.
        """
        if row is None or row.sid == sid or (sid < 0 and (self.proof is None or not self.proof.binds_place)):
            return True
        lk0, text = str(row.lk0), "The receiver names another position."
        self.note_violation(NotYours(text, lk0=lk0, peer=str(self.source), sid=sid, ours=row.sid), lk0)
        return False

    def is_same(self, row: Outbound | None, ending: Arrival, digest: str) -> bool:
        """Whether the receiver has the document that was sent, not another one; True if there is nothing to compare."""
        if row is None or not is_open(row) or ending is not Arrival.RECV or not digest or not row.digest:
            return True
        if digest == row.digest.hex():
            return True
        text = "The receiver has other bytes."
        self.note_violation(Mismatch(text, lk0=str(row.lk0), sent=row.digest.hex(), there=digest), str(row.lk0))
        return False

    def is_hub(self, row: Outbound) -> bool:
        if self.sender.uplink.hub == self.source:
            return True
        text = "A node other than the hub makes a statement of the hub."
        self.note_violation(NotYours(text, lk0=str(row.lk0), peer=str(self.source)), str(row.lk0))
        return False

    def apply_event(
        self,
        row: Outbound | None,
        event: SenderEvent,
        detail: str = "",
        reason: Reason | None = None,
        cause: object = None,
    ) -> None:
        """Change the row by the grid; an event that cannot happen in the row's state is a violation."""
        try:
            self.sender.rows.apply_event(self.unit, row, event, self.after, detail, reason, cause)
        except SemqError as error:
            self.note_violation(error, str(row.lk0) if row is not None else "")

    def apply(self) -> None:
        """Apply the changes in memory, after the commit. Search for refused documents that can be sent again."""
        for end in self.after.settled:
            self.sender.forget(end.row)
        self.sender.rows.apply(self.after)
        for dest in {end.row.dest for end in self.after.settled if end.code in REFUSALS}:
            self.sender.resealing.search(dest)
