"""The hub's check whether the sender of a packet may make the statements in it (PROTOCOL.md section 10).

The sender of a message checks, from its row, whether the message was addressed to the node that states its arrival.
"""

from collections.abc import Callable, Sequence
from typing import Any

from semq.engine.errors import NotYours
from semq.errors import SemqError
from semq.umx_t.address import Address
from semq.umx_t.envelope import Envelope, Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Inquiry, InquiryRole, Presence, Receipt

INDICATION, RESPONSE = Primitive.INDICATION, Primitive.RESPONSE
REQUEST, CONFIRMATION = Primitive.REQUEST, Primitive.CONFIRMATION
# (record, name of the speaker, name of the target, whether the target is the hub) -> the fault, or an empty text. Both
# names end with a dot, because the LK0s of a node's messages begin with its name and a dot.
Fault = Callable[[Any, str, str, bool], str]


def check_records(packet: Packet, peer: Address, hub: Address) -> tuple[Sequence[object], list[tuple[object, str]]]:
    """Return the records that ``peer`` may send in this packet, and the others with their faults."""
    rule = RULES.get((packet.function, packet.primitive))
    if rule is None:
        return [], [(record, "only the hub may send such records") for record in packet.records]
    to_hub = packet.target.node == hub
    speaker, target = f"{peer}.", f"{packet.target.node}."
    wrong = [(record, fault) for record in packet.records if (fault := rule(record, speaker, target, to_hub))]
    if not wrong:
        return packet.records, wrong
    bad = {id(record) for record, _ in wrong}
    return [record for record in packet.records if id(record) not in bad], wrong


def message_fault(peer: Address, envelope: Envelope) -> SemqError | None:
    """Return the fault of a message; None if there is none. A node may send only messages that it accepted itself, and
    must not name a copy (section 10)."""
    if envelope.source.node != peer or envelope.lk0.node != peer:
        return NotYours(lk0=envelope.ident, source=str(envelope.source), peer=str(peer))
    if envelope.lk1 is not None:
        return NotYours("A node names a copy in the hub's store.", lk0=envelope.ident, peer=str(peer))
    return None


def record_name(record: object) -> str:
    """Return the name of the message that a record is about, for the ledger."""
    return str(getattr(record, "ident", ""))


def _receipt(record: Receipt, speaker: str, target: str, to_hub: bool) -> str:
    """Check an indication: a node may send Ack to the hub, about a copy, and Ack2 to the sender of the message."""
    if record.flag is not None:
        return "only the hub reports what it has forwarded, stored or refused"
    if to_hub:
        return "" if record.ack_flag is AckFlag.TRANSPORT else "an Ack2 goes to the sender of the message"
    if record.ack_flag is not AckFlag.END_TO_END:
        return "an Ack goes to the hub"
    return "" if record.ident.startswith(target) else "an Ack2 for another node's message"


def _receipt_noted(record: Receipt, speaker: str, target: str, to_hub: bool) -> str:
    """Check a response: a sender may send ReAck2, and a ReAck of a refusal, about its own messages."""
    if to_hub:
        is_own = record.ack_flag is AckFlag.TRANSPORT and record.ident.startswith(speaker)
        return "" if is_own else "a sender notes refusals of its own messages"
    if record.ack_flag is not AckFlag.END_TO_END:
        return "only the hub notes an Ack"
    return "" if record.ident.startswith(speaker) else "a ReAck2 for another node's message"


def _inquiry(record: Inquiry, speaker: str, target: str, to_hub: bool) -> str:
    """Check an inquiry: role S about a message of the speaker, role R about one of the target; role P is the hub's."""
    if record.role is InquiryRole.S:
        return "" if record.ident.startswith(speaker) else "an inquiry about another node's message"
    if record.role is InquiryRole.R:
        return "" if to_hub or record.ident.startswith(target) else "an inquiry about a message of a third node"
    return "only the hub asks in this role"


def _answer(record: Inquiry, speaker: str, target: str, to_hub: bool) -> str:
    """Check an answer: it goes to the sender of the message, or to the hub about a copy."""
    return "" if to_hub or record.ident.startswith(target) else "an answer about a message of a third node"


def _introduction(record: Presence, speaker: str, target: str, to_hub: bool) -> str:
    """Check a record of presence: a node may send its own certificates and present users, to the hub."""
    if not to_hub:
        return "only the hub reports which nodes are online"
    return "" if f"{record.node}." == speaker else "an introduction of another node"


# The kinds of packets that a node may send.
RULES: dict[tuple[Function, Primitive], Fault] = {
    (Function.RECEIPTS, INDICATION): _receipt,
    (Function.RECEIPTS, RESPONSE): _receipt_noted,
    (Function.INQUIRIES, REQUEST): _inquiry,
    (Function.INQUIRIES, CONFIRMATION): _answer,
    (Function.PRESENCE, INDICATION): _introduction,
}
