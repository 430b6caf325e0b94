"""The hub's check of every packet, before it answers it or passes it on: which statements may its sender make?

The name of a session is proven (certificate, or password on loopback); here every record is held against it, so that
a node can speak for nobody else (PROTOCOL.md section 10): it acknowledges only what was addressed to it, answers only
for itself, asks only about its own messages, and never speaks as the hub. Receivers of a packet check again what only
they can know: whether the row was addressed to the speaker. Called by ``hub_engine``.
"""

from collections.abc import Callable, Sequence
from typing import Any

from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import AckFlag, InquiryRole

INDICATION, RESPONSE = Primitive.INDICATION, Primitive.RESPONSE
REQUEST, CONFIRMATION = Primitive.REQUEST, Primitive.CONFIRMATION
Fault = Callable[[Any, str, str, bool], str]  # record, "speaker.", "target.", whether that is the hub: what is wrong


def faults(packet: Packet, peer: Address, hub: Address) -> tuple[Sequence[Any], list[tuple[Any, str]]]:
    """The records that ``peer`` may send in this packet, and the others with what is wrong with them."""
    look = RULES.get((packet.function, packet.primitive))
    if look is None:
        return [], [(record, "only the hub says such things") for record in packet.records]
    target = packet.target.node
    speaker, other, to_hub = f"{peer}.", f"{target}.", target == hub
    wrong = [(record, fault) for record in packet.records if (fault := look(record, speaker, other, to_hub))]
    if not wrong:
        return packet.records, wrong
    bad = {id(record) for record, _ in wrong}
    return [record for record in packet.records if id(record) not in bad], wrong


def record_name(record: Any) -> str:
    """The message that a record is about, for the ledger."""
    return str(getattr(record, "ident", ""))


def _receipt(record: Any, speaker: str, other: str, to_hub: bool) -> str:
    """Ack goes to the hub about a copy, Ack2 to the node that the message is of; nothing else is a node's to say."""
    if record.flag is not None:
        return "only the hub says what it has forwarded, stored or refused"
    if to_hub:
        return "" if record.ack_flag is AckFlag.TRANSPORT else "an Ack2 goes to the sender of the message"
    if record.ack_flag is not AckFlag.END_TO_END:
        return "an Ack goes to the hub"
    return "" if record.ident.startswith(other) else "an Ack2 for another node's message"


def _receipt_noted(record: Any, speaker: str, other: str, to_hub: bool) -> str:
    """ReAck2 is the sender's, about its own message, and so is a refusal that it has noted; ReAck is the hub's."""
    if to_hub:
        is_own = record.ack_flag is AckFlag.TRANSPORT and record.ident.startswith(speaker)
        return "" if is_own else "a sender notes refusals of its own messages"
    if record.ack_flag is not AckFlag.END_TO_END:
        return "only the hub notes an Ack"
    return "" if record.ident.startswith(speaker) else "a ReAck2 for another node's message"


def _inquiry(record: Any, speaker: str, other: str, to_hub: bool) -> str:
    """Role S asks about the asker's own message, role R about one of the node asked; role P is the hub's."""
    if record.role is InquiryRole.S:
        return "" if record.ident.startswith(speaker) else "an inquiry about another node's message"
    if record.role is InquiryRole.R:
        return "" if to_hub or record.ident.startswith(other) else "an inquiry about a message of a third node"
    return "only the hub asks in this role"


def _answer(record: Any, speaker: str, other: str, to_hub: bool) -> str:
    """An answer goes to whose message it is about, or to the hub about a copy."""
    return "" if to_hub or record.ident.startswith(other) else "an answer about a message of a third node"


def _introduction(record: Any, speaker: str, other: str, to_hub: bool) -> str:
    """A node says its own certificates to the hub; who is there and who may send to whom is the hub's to say."""
    if not to_hub:
        return "only the hub says who is there"
    return "" if f"{record.node}." == speaker else "an introduction of another node"


# What a node may send at all.
RULES: dict[tuple[Function, Primitive], Fault] = {
    (Function.RECEIPTS, INDICATION): _receipt,
    (Function.RECEIPTS, RESPONSE): _receipt_noted,
    (Function.INQUIRIES, REQUEST): _inquiry,
    (Function.INQUIRIES, CONFIRMATION): _answer,
    (Function.PRESENCE, INDICATION): _introduction,
}
