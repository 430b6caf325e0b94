"""The check of packets at a local node: addressee, source, and the sender of the message that each record names.

Before it, ``engine.direct`` checks that a packet of a direct session is the partner's own; after it, ``sealing`` checks
the signature.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from semq.engine.errors import NotYours
from semq.umx_t.address import Address, is_hub
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import AckFlag, Answer, Inquiry, InquiryRole, Presence, Receipt

T = TypeVar("T")
# Permitted records, each with its place in the packet, which the proof of a single receipt needs.
PlacedRecords = list[tuple[int, Any]]


class Speaker(Enum):
    """The sources of records."""

    HUB = "the hub of this session"
    NODE = "another institution"


class MessageSender(Enum):
    """Whose message a record may name; the values of OURS and THEIRS complete the text of a violation."""

    OURS = "that this node did not send"
    THEIRS = "that the source of the record did not send"
    ANY = "any: checked where the row is known"


class RecordKind(NamedTuple):
    """A kind of record."""

    name: str
    speaker: Speaker
    about: MessageSender


ACK2 = RecordKind("an Ack2", Speaker.NODE, MessageSender.OURS)
NOTE = RecordKind("a note of forwarding, custody or refusal", Speaker.HUB, MessageSender.OURS)
REACK2 = RecordKind("a ReAck2", Speaker.NODE, MessageSender.THEIRS)
REACK = RecordKind("a ReAck", Speaker.HUB, MessageSender.ANY)
ASKED_BY_SENDER = RecordKind("an inquiry of a sender", Speaker.NODE, MessageSender.THEIRS)
ASKED_BY_HUB = RecordKind("an inquiry of the hub", Speaker.HUB, MessageSender.ANY)
ASKED_BY_RECEIVER = RecordKind("an inquiry of a receiver", Speaker.NODE, MessageSender.OURS)
SAID_BY_RECEIVER = RecordKind("the answer of a receiver", Speaker.NODE, MessageSender.OURS)
SAID_BY_HUB = RecordKind("the answer of the hub", Speaker.HUB, MessageSender.OURS)
PRESENCE = RecordKind("a record of presence", Speaker.HUB, MessageSender.ANY)
HUB_ANSWERS = frozenset({Answer.CUSTODY, Answer.GONE, Answer.OFFLINE, Answer.UNAVAIL})


def _receipt(record: Receipt) -> RecordKind | None:
    if record.flag is not None:
        return NOTE if record.ack_flag is None else None
    return ACK2 if record.ack_flag is AckFlag.END_TO_END else None


def _receipt_noted(record: Receipt) -> RecordKind | None:
    if record.flag is not None:
        return None
    return {AckFlag.END_TO_END: REACK2, AckFlag.TRANSPORT: REACK}.get(record.ack_flag) if record.ack_flag else None


def _inquiry(record: Inquiry) -> RecordKind | None:
    return {InquiryRole.S: ASKED_BY_SENDER, InquiryRole.R: ASKED_BY_RECEIVER}.get(
        record.role or InquiryRole.P, ASKED_BY_HUB
    )


def _answer(record: Inquiry) -> RecordKind | None:
    return SAID_BY_HUB if record.effective_answer in HUB_ANSWERS else SAID_BY_RECEIVER


def _presence(record: Presence) -> RecordKind | None:
    return PRESENCE


# The kind of a record by its packet; None: a local node receives no such record.
KINDS: dict[tuple[Function, Primitive], Callable[[Any], RecordKind | None]] = {
    (Function.RECEIPTS, Primitive.INDICATION): _receipt,
    (Function.RECEIPTS, Primitive.RESPONSE): _receipt_noted,
    (Function.INQUIRIES, Primitive.REQUEST): _inquiry,
    (Function.INQUIRIES, Primitive.CONFIRMATION): _answer,
    (Function.PRESENCE, Primitive.INDICATION): _presence,
}


def check_packet(packet: Packet, peer: Address, here: Address) -> None:
    """Check addressee and source of a packet from the session with ``peer``, at the node ``here``. Raises NotYours.
    ``peer``: this node itself for packets that do not leave it.
    """
    source, target = packet.source.node, packet.target.node
    if target != here:
        raise NotYours("A packet is addressed to another node.", source=str(source), target=str(target))
    if (source == here) is not (peer == here):
        raise NotYours("The source of a packet does not fit its session.", source=str(source), peer=str(peer))


def split_records(packet: Packet, peer: Address, here: Address) -> tuple[PlacedRecords, list[tuple[str, str]]]:
    """Return the permitted records; and for each refused record a pair: its message's LK0 as text, and the fault."""
    kind_of = KINDS.get((packet.function, packet.primitive))
    source = packet.source.node
    speaker = Speaker.HUB if source == peer != here and is_hub(peer) else Speaker.NODE
    prefixes = _prefix(here), _prefix(source)
    placed_records: PlacedRecords = []
    faults: list[tuple[str, str]] = []
    for place, record in enumerate(packet.records):
        ident: str = getattr(record, "ident", "")
        if fault := _fault(kind_of(record) if kind_of else None, speaker, prefixes, ident):
            faults.append((ident, fault))
        else:
            placed_records.append((place, record))
    return placed_records, faults


@lru_cache(maxsize=4096)
def _prefix(node: Address) -> str:
    """Return the text with which the LK0 of each message of a node begins."""
    return f"{node}."


def _fault(kind: RecordKind | None, speaker: Speaker, prefixes: tuple[str, str], ident: str) -> str:
    """Return what is wrong with a record; empty: it is permitted. ``prefixes``: ``_prefix`` of this node and of the
    source."""
    if kind is None:
        return "A local node receives no such record."
    if kind.speaker is not speaker:
        return f"Only {kind.speaker.value} may send {kind.name}."
    if kind.about is MessageSender.ANY:
        return ""
    if not ident.startswith(prefixes[kind.about is MessageSender.THEIRS]):
        return f"{kind.name[0].upper()}{kind.name[1:]} names a message {kind.about.value}."
    return ""


def records_of(placed_records: Iterable[tuple[int, T]]) -> list[T]:
    """Return the records without their places."""
    return [record for _, record in placed_records]
