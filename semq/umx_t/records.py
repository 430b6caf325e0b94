"""The 810 and 809 records about messages, records of presence, and records of datagram channels.

A packet is a JSON array of records (PROTOCOL.md section 17). Fields of a newer version are accepted; absent fields have
defaults. Incarnations are hexadecimal text, since many JSON readers cannot hold 63 bits.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from semq.foreign_text import shortened
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.errors import BadRecord, PacketTooLarge
from semq.umx_t.status import Arrival
from semq.umx_t.word import Word

# Bounds of one packet. Nodes of every version send at most 500 records.
RECORDS_MAX = 1000
FLOORS_MAX = 4000  # in all records of a packet together
# Largest size of one packet in bytes.
PACKET_BYTES_MAX: dict[tuple[Function, Primitive], int] = {
    (Function.RECEIPTS, Primitive.INDICATION): 1 << 20,
    (Function.RECEIPTS, Primitive.RESPONSE): 384 << 10,
    (Function.INQUIRIES, Primitive.REQUEST): 1 << 20,
    (Function.INQUIRIES, Primitive.CONFIRMATION): 1 << 20,
    (Function.PRESENCE, Primitive.INDICATION): 8 << 20,
    (Function.DATAGRAMS, Primitive.INDICATION): 64 << 10,
}
GROUP_MAX = 1000  # members of a group
FULL_PACKET_BYTES = 256 * 1024  # estimated size at which a sender starts another packet

# Permitted values of fields. Each value that passes fits into a column of the store (63 bits, no NUL in a text): one
# record of a hostile peer must not fail a transaction that it shares with the work of others.
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
    """``ack_flag`` of an 810 record."""

    TRANSPORT = 1  #: Ack, ReAck: between receiver and hub
    END_TO_END = 2  #: Ack2, ReAck2: between receiver and sender


class HubFlag(Word):
    """``flag`` of an 810 record from the hub."""

    FORWARDED = 1  #: Ack-Fwd: a hint, no custody
    STORED = 2  #: Ack-Save: custody
    DISCARDED = 3  #: a message of class 1 that cannot be forwarded at once
    #: the target's session ended before its Ack2 was seen; or the store for the message was not served, and now is
    FORWARD_FAILED = 4
    REFUSED = 5  #: the hub can never deliver it (section 18), or an operator has refused the copy ``lk1`` (H16)


class InquiryRole(Word):
    """The party that asks in an 809 record."""

    S = "S"  #: the sender: has the receiver recorded the message? To the custodian: does it hold the message?
    P = "P"  #: the hub: has the receiver recorded the message?
    R = "R"  #: the receiver: the message is recorded; has the acknowledgement been noted?


class Answer(Word):
    """Answers to inquiries, and the ``status`` in Ack, Ack2 and inquiries of role R.

    RECV to NOT come from the receiver's ledger (``status.Arrival``), the others from the hub.
    """

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
    """An 810 record: Ack, Ack2, ReAck, ReAck2, Ack-Fwd, Ack-Save, a refusal by the hub, or the ReAck of a refusal."""

    #: the row that the record is about: three numbers of LK1 in Ack and ReAck, otherwise of LK0
    src_semq_id: StoreNumber = 1
    src_semq_db_id: StoreNumber = 1
    src_ref_id: Number = 0
    dest_semq_id: StoreNumber = 1  #: the row of tb_0030 of the acknowledging node, echoed in the answer
    dest_semq_db_id: StoreNumber = 1
    dest_ref_id: Number = 0
    ack_flag: AckFlag | None = None
    flag: HubFlag | None = None
    app_key: tuple[Text, Text, Text, Text] | None = None
    ident: Ident = ""  #: the full LK0 of the message
    status: Answer | None = None
    reason: tuple[Text, Text] | None = None  #: code SEMQ-nnnn and text, for REJ, NOT (S16) and refusals
    digest: Digest = ""  #: SHA-256 of the payload, hexadecimal
    at: Number = 0  #: when the receiver recorded it, milliseconds since 1970 UTC
    sid: Sid = -1  #: Ack2: the position that the receiver refers to
    #: ReAck2: for each incarnation its floor, and the number of its positions if it has ended, else null
    floors: dict[Inc, tuple[Number, Number | None]] | None = None
    att: Number = 0  #: Ack-Fwd, and refusal of a message that is not stored: the attempt to which it refers
    lk1: Copy | None = None  #: Ack-Save, refusal of a stored copy: the copy
    void: bool = False  #: whether that copy is a void marker


class Inquiry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An 809 record: Inquiry (request) or Inquiry-Resp (confirmation)."""

    #: the row that is asked about: three numbers of its locator, repeated in the answer
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
    prev: Ident = ""  #: role R: the previous position of the order key, for which the row waits
    result: int | None = None  #: 1 received, 0 not received: the only answer of older peers
    answer: Answer | None = None
    void: bool = False
    reason: tuple[Text, Text] | None = None
    digest: Digest = ""

    @property
    def effective_answer(self) -> Answer | None:
        """The answer. An older peer sends only ``result``, which is converted (PROTOCOL.md section 17)."""
        return ANSWER_OF.get(self.result) if self.answer is None else self.answer


class Presence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the hub tells a node about a partner or a group, or a node tells the hub or a partner about itself.

    Online means that an authenticated link is open. Certificates are verified before use.
    """

    node: NodeName
    online: bool = False
    allowed: bool = True  #: whether the node that gets the record may send to ``node``
    complete: bool = False  #: the last record of a full list: nodes that the list does not name are unknown
    terms: tuple[Terms, ...] | None = None  #: what may be sent to ``node``; None: no restrictions
    #: certificates of ``node``, in PEM; None: unchanged or not known
    certificates: tuple[Certificate, ...] | None = None
    #: of a group: the members to which the node that gets the record may send; empty: the group no longer exists for it
    members: Annotated[tuple[NodeName, ...], Meta(max_length=GROUP_MAX)] | None = None
    others: Number = 0  #: of a group: number of members to which that node may not send
    #: of a partner: users named in the definitions who receive documents now; a node sends the hub its own users
    present: Annotated[tuple[UserName, ...], Meta(max_length=GROUP_MAX)] | None = None


class ChannelRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The offer of a datagram channel beside a link, with ``secret``, or a report about it (PROTOCOL.md section 25)."""

    id: ChannelId
    secret: Secret = ""
    host: HostText = ""  #: host that receives datagrams; empty: the address of the link
    port: PortNumber = 0
    sent: Number = 0  #: report: documents sent on the channel
    covered: Number = 0  #: report: documents of the other node, arrived or lost
    lost: Number = 0  #: report: documents in ``covered`` that were lost
    full: Number = 0  #: report: documents in ``covered`` that were dropped for want of room


_TYPES: dict[Function, type] = {
    Function.RECEIPTS: list[Receipt],
    Function.INQUIRIES: list[Inquiry],
    Function.PRESENCE: list[Presence],
    Function.DATAGRAMS: list[ChannelRecord],
}
_DECODERS: dict[Function, msgspec.json.Decoder[list[Any]]] = {
    function: msgspec.json.Decoder(shape) for function, shape in _TYPES.items()
}
_raw_records = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder()

# Answers as numbers, and back, for peers that know only ``result`` (PROTOCOL.md section 17).
RESULT_OF = {Answer.RECV: 1, Answer.REJ: 1, Answer.VOID: 1, Answer.SETTLED: 1, Answer.NOT: 0}
ANSWER_OF: dict[int | None, Answer] = {1: Answer.RECV, 0: Answer.NOT}


def encode_records(records: Sequence[Any]) -> bytes:
    """Return the body of a transport packet."""
    return _encoder.encode(records)


def decode_records(function: Function, primitive: Primitive, body: bytes | memoryview) -> list[Any]:
    """Return the records of a transport packet; unknown fields are accepted.

    Raises BadRecord if the packet cannot be read, PacketTooLarge if it is larger than any node sends.
    """
    bytes_max = PACKET_BYTES_MAX.get((function, primitive))
    if bytes_max is None:
        raise BadRecord(
            "The function and primitive of the packet are unknown.", function=function.value, primitive=primitive.value
        )
    _check_size(body, bytes_max)
    try:
        records: list[Any] = _DECODERS[function].decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = shortened(str(error), 200)
        raise BadRecord("The records of the packet cannot be read.", function=function.value, fault=fault) from error
    floors = sum(len(record.floors) for record in records if record.floors) if function is Function.RECEIPTS else 0
    if floors > FLOORS_MAX:
        raise PacketTooLarge("The packet holds too many floors.", count=floors, allowed=FLOORS_MAX)
    return records


def _check_size(body: bytes | memoryview, bytes_max: int) -> None:
    """Refuse a packet that would be too expensive to decode. Raises PacketTooLarge."""
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


def record_size(record: Any) -> int:
    """Return an estimate of a record's size in a packet, in bytes. The members of a group do not count."""
    if isinstance(record, Presence):
        return 300 + sum(map(len, record.certificates or ())) + 500 * len(record.terms or ())
    floors = record.floors if isinstance(record, Receipt) and record.floors else ()
    return 600 + sum(4 * len(text) for text in record.reason or ()) + 64 * len(floors)
