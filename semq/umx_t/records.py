"""The 810 and 809 records about messages, records of presence, and records of datagram channels.

A packet is a JSON array of records (PROTOCOL.md section 17). Incarnations are hexadecimal text, since many JSON readers
cannot hold 63 bits.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from semq.foreign_text import shortened
from semq.umx_t.agreement import Terms
from semq.umx_t.attribute_values import MOMENT_MAX
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.errors import BadRecord, PacketTooLarge
from semq.umx_t.status import Arrival
from semq.umx_t.word import Word

# Limits of a received packet.
RECORDS_MAX = 1000
FLOORS_MAX = 4000  # in all records together
PACKET_BYTES_MAX: dict[tuple[Function, Primitive], int] = {
    (Function.RECEIPTS, Primitive.INDICATION): 1 << 20,
    (Function.RECEIPTS, Primitive.RESPONSE): 384 << 10,
    (Function.INQUIRIES, Primitive.REQUEST): 1 << 20,
    (Function.INQUIRIES, Primitive.CONFIRMATION): 1 << 20,
    (Function.PRESENCE, Primitive.INDICATION): 8 << 20,
    (Function.DATAGRAMS, Primitive.INDICATION): 64 << 10,
}
GROUP_MAX = 1000  # members of a group, or present users of an institution
FULL_PACKET_BYTES = 256 * 1024  # estimated size at which a sender starts another packet

# Permitted values of fields. Each fits into a column of the store (63 bits, no NUL in a text), so that a record of a
# hostile peer cannot make a transaction fail in which other peers have work.
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Sid = Annotated[int, Meta(ge=-1, le=2**63 - 1)]  #: a position in a stream; -1 for none
StoreNumber = Annotated[int, Meta(ge=0, le=999_999_999)]
Ident = Annotated[str, Meta(pattern=r"^[0-9A-Za-z._-]{0,160}\Z")]  #: an LK0 or a position, or empty
Digest = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]
Inc = Annotated[str, Meta(pattern=r"^([0-7][0-9a-f]{15}|[0-9a-f]{1,15})\Z")]
Text = Annotated[str, Meta(pattern=r"^[^\x00]*\Z", max_length=4000)]
NodeName = Annotated[str, Meta(pattern=r"^[0-9A-Za-z._/-]{0,140}\Z")]
UserName = Annotated[str, Meta(pattern=r"^[0-9A-Za-z_-]{1,64}\Z")]
Certificate = Annotated[str, Meta(pattern=r"^[^\x00]*\Z", max_length=16_384)]
Copy = tuple[StoreNumber, StoreNumber, Number]  #: an LK1
ChannelId = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
Secret = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]
HostText = Annotated[str, Meta(pattern=r"^[0-9A-Za-z._:-]{0,253}\Z")]
PortNumber = Annotated[int, Meta(ge=0, le=65_535)]


class AckFlag(Word):
    """Values of ``Receipt.ack_flag``."""

    TRANSPORT = 1  #: Ack, ReAck: between receiver and hub; ReAck of a refusal: from the sender to the hub
    END_TO_END = 2  #: Ack2, ReAck2: between receiver and sender


class HubFlag(Word):
    """Values of ``Receipt.flag``, which only the hub sets."""

    FORWARDED = 1  #: Ack-Fwd: a hint, no custody
    STORED = 2  #: Ack-Save: custody
    DISCARDED = 3  #: a message of class 1 that cannot be forwarded at once
    #: the sender should send the message again: the target's session ended before its Ack2 was seen, or the
    #: hub's store that the message was for had no instance, and has one again
    FORWARD_FAILED = 4
    REFUSED = 5  #: the hub can never deliver the message (section 18), or an operator has refused the copy (H16)


class InquiryRole(Word):
    """The party that asks in an 809 record, and the question."""

    S = "S"  #: the sender: is the message recorded (to the receiver), is it in custody (to the hub)?
    P = "P"  #: the hub: is the message recorded?
    R = "R"  #: the receiver: has the acknowledgement been noted?


class Answer(Word):
    """Answers to inquiries: RECV to NOT from the receiver's ledger (``status.Arrival``), the others from the hub."""

    RECV = "RECV"
    REJ = "REJ"
    VOID = "VOID"
    SETTLED = "SETTLED"
    NOT = "NOT"
    CUSTODY = "CUSTODY"
    GONE = "GONE"
    OFFLINE = "OFFLINE"
    UNAVAIL = "UNAVAIL"


ANSWER_BY_ARRIVAL = {arrival: Answer[arrival.name] for arrival in Arrival}
ARRIVAL_BY_ANSWER = {answer: arrival for arrival, answer in ANSWER_BY_ARRIVAL.items() if arrival is not Arrival.NOT}


class Receipt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An 810 record: Ack, Ack2, ReAck, ReAck2, Ack-Fwd, Ack-Save, or a refusal by the hub."""

    #: the row: three numbers of LK1 in Ack and ReAck, otherwise of LK0
    src_semq_id: StoreNumber = 1
    src_semq_db_id: StoreNumber = 1
    src_ref_id: Number = 0
    dest_semq_id: StoreNumber = 1  #: the row of tb_0030, repeated in the answer
    dest_semq_db_id: StoreNumber = 1
    dest_ref_id: Number = 0
    ack_flag: AckFlag | None = None
    flag: HubFlag | None = None
    app_key: tuple[Text, Text, Text, Text] | None = None
    ident: Ident = ""  #: the LK0
    status: Answer | None = None
    reason: tuple[Text, Text] | None = None  #: code SEMQ-nnnn and text
    digest: Digest = ""  #: SHA-256 of the payload
    at: Number = 0  #: time of recording, milliseconds since 1970 UTC
    sid: Sid = -1  #: Ack2: the recorded position
    #: ReAck2, for each incarnation: the floor, and the number of positions (null unless the incarnation has ended)
    floors: dict[Inc, tuple[Number, Number | None]] | None = None
    att: Number = 0  #: from the hub: the attempt
    lk1: Copy | None = None  #: the stored copy
    void: bool = False  #: whether the stored copy is a void marker


class Inquiry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An 809 record: Inquiry (request) or Inquiry-Resp (confirmation)."""

    #: the row: three numbers of the locator, repeated in the answer
    semq_id: StoreNumber = 1
    semq_db_id: StoreNumber = 1
    ref_id: Number = 0
    flag: int = 2  #: 1 from a hub, 2 from the sender or the receiver
    role: InquiryRole | None = None
    ident: Ident = ""
    sid: Sid = -1
    floor: Number = 0
    nonce: Number = 0
    lk1: Copy | None = None
    status: Answer | None = None  #: role R: the entry in the receiver's ledger
    dest_ref_id: Number = 0  #: role R: the asker's row of tb_0030
    prev: Ident = ""  #: role R: the position for which the row waits
    result: int | None = None  #: answer of older peers: 1 received, 0 not received
    answer: Answer | None = None
    void: bool = False
    reason: tuple[Text, Text] | None = None
    digest: Digest = ""

    @property
    def effective_answer(self) -> Answer | None:
        """``answer``, or ``result`` of an older peer as an answer."""
        return ANSWER_OF.get(self.result) if self.answer is None else self.answer


class Presence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A report of the hub about a partner or a group, or of a node about itself."""

    node: NodeName
    online: bool = False  #: whether an authenticated link is open
    allowed: bool = True  #: whether the receiver of the record may send to ``node``
    complete: bool = False  #: whether the record ends a full list: nodes not in the list are unknown
    terms: tuple[Terms, ...] | None = None  #: what may be sent to ``node``; None: no restrictions
    #: certificates of ``node``, in PEM, not verified yet; None: unchanged or not known
    certificates: tuple[Certificate, ...] | None = None
    #: of a group: the members to which the receiver of the record may send; empty: no group any more
    members: Annotated[tuple[NodeName, ...], Meta(max_length=GROUP_MAX)] | None = None
    others: Number = 0  #: of a group: number of members to which the receiver may not send
    #: users in the definitions who receive documents now
    present: Annotated[tuple[UserName, ...], Meta(max_length=GROUP_MAX)] | None = None
    #: of the receiver itself: a start of its store that the sender has seen, and that is not before the present one
    start_seen: Number = 0
    #: of the receiver itself: the last document that the sender has seen of the process with its store before this one,
    #: as sender or receiver, and when that process accepted or recorded it, in milliseconds since 1970 UTC
    last_seen: Ident = ""
    last_seen_at: Annotated[int, Meta(ge=0, le=MOMENT_MAX)] = 0


class ChannelRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The offer of a datagram channel (with ``secret``), or a report about one (PROTOCOL.md section 25)."""

    id: ChannelId
    secret: Secret = ""
    host: HostText = ""  #: receiver of datagrams; empty: the address of the link
    port: PortNumber = 0
    # Numbers of documents in a report:
    sent: Number = 0  #: sent by the reporting node
    covered: Number = 0  #: sent by the other node, and received or lost
    lost: Number = 0  #: those of ``covered`` that were lost
    full: Number = 0  #: those of ``covered`` that arrived and were dropped for lack of room


Record = Receipt | Inquiry | Presence  # of packets that wait for other records
_TYPES: dict[Function, type] = {
    Function.RECEIPTS: list[Receipt],
    Function.INQUIRIES: list[Inquiry],
    Function.PRESENCE: list[Presence],
    Function.DATAGRAMS: list[ChannelRecord],
}
_DECODERS: dict[Function, msgspec.json.Decoder[list[object]]] = {
    function: msgspec.json.Decoder(shape) for function, shape in _TYPES.items()
}
_raw_records = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()

# For older peers, which use only ``result`` (PROTOCOL.md section 17).
RESULT_OF = {Answer.RECV: 1, Answer.REJ: 1, Answer.VOID: 1, Answer.SETTLED: 1, Answer.NOT: 0}
ANSWER_OF: dict[int | None, Answer] = {1: Answer.RECV, 0: Answer.NOT}


def encode_records(records: Sequence[object]) -> bytes:
    """Return the body of a transport packet."""
    return _encoder.encode(records)


def decode_records(function: Function, primitive: Primitive, body: bytes | memoryview) -> list[object]:
    """Return the records of a transport packet; unknown fields are ignored. Raises BadRecord, PacketTooLarge."""
    bytes_max = PACKET_BYTES_MAX.get((function, primitive))
    if bytes_max is None:
        raise BadRecord(
            "The function and primitive of the packet are unknown.", function=function.value, primitive=primitive.value
        )
    _check_size(body, bytes_max)
    try:
        records = _DECODERS[function].decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = shortened(str(error), 200)
        raise BadRecord("The records of the packet cannot be read.", function=function.value, fault=fault) from error
    floors = sum(len(record.floors) for record in records if isinstance(record, Receipt) and record.floors)
    if floors > FLOORS_MAX:
        raise PacketTooLarge("The packet holds too many floors.", count=floors, allowed=FLOORS_MAX)
    return records


def _check_size(body: bytes | memoryview, bytes_max: int) -> None:
    """Raise PacketTooLarge for a packet that is too expensive to decode."""
    if len(body) > bytes_max:
        raise PacketTooLarge("The packet has too many bytes.", size=len(body), allowed=bytes_max)
    if bytes(body).count(b"{") <= RECORDS_MAX:  # each record has at least one brace
        return
    try:
        count = len(_raw_records.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # the decoder of the records reports the fault
    if count > RECORDS_MAX:
        raise PacketTooLarge("The packet holds too many records.", count=count, allowed=RECORDS_MAX)


def record_size(record: Record) -> int:
    """Return the estimated bytes of a record. Names of members and users in a record of presence do not count."""
    if isinstance(record, Presence):
        return 300 + sum(map(len, record.certificates or ())) + 500 * len(record.terms or ())
    floors = record.floors if isinstance(record, Receipt) and record.floors else ()
    return 600 + sum(4 * len(text) for text in record.reason or ()) + 64 * len(floors)
