"""The rows of the tables as values (PROTOCOL.md section 3). Times are milliseconds since 1970 UTC."""

import re
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from semq.umx_t.address import Address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0, LK1, Pos, Store
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

Reason = tuple[str, str]  # code SEMQ-nnnn, text
# Outcomes that a later receipt of the receiver changes to DELIVERED (S5c).
CORRECTABLE = frozenset({Outcome.REJECTED, Outcome.DROPPED})


class OutStreamKey(NamedTuple):
    """A stream at its sender: destination node and incarnation."""

    dest: str
    inc: int


class InStreamKey(NamedTuple):
    """A stream at its receiver: source store and incarnation."""

    store: Store
    inc: int


class Slot(NamedTuple):
    """A position in the receiver's ledger: stream and number."""

    stream: InStreamKey
    sid: int


class OrderKey(NamedTuple):
    """A sequence of ordered documents at the sender: destination node and the application's key."""

    dest: str
    key: str


_GROUP_PLACE = re.compile(r"member (\d+) of (\d+) of (\S+) to (\S+)\Z")


class GroupPlace(NamedTuple):
    """The place of a message in the submission to a group (PROTOCOL.md section 2.1)."""

    member: int  #: from 1
    members: int
    lk0: str  #: names the submission
    target: str  #: the group

    def __str__(self) -> str:
        """Return the text for tb_0031 and for the first ledger line."""
        return f"member {self.member} of {self.members} of {self.lk0} to {self.target}"


def read_group_place(text: str) -> GroupPlace | None:
    """Return the GroupPlace at the end of a text, or None."""
    match = _GROUP_PLACE.search(text)
    return GroupPlace(int(match[1]), int(match[2]), match[3], match[4]) if match else None


class Outbound(Struct):
    """A row of tb_0031: a message that this node accepted, or a copy that the hub stored."""

    object_id: int
    direction: Direction
    lk0: LK0
    target: Address
    save_fwd: SaveFwd
    ack2: bool
    ss_status: SendStatus = SendStatus.SS_INIT
    att: int = 0  #: attempts to send it
    sid: int = -1  #: number in the stream; -1 for classes 1 and 2
    prev: Pos | None = None  #: position of the preceding message with the same order key
    order_key: str = ""
    app_key: AppKey = NO_KEY
    token: str | None = None
    custodian: LK1 | None = None  #: the hub's copy, if known
    void: bool = False  #: a void marker is sent instead of the document
    lost: bool = False  #: void because a store of the hub lost the only copy
    has_payload: bool = True
    held: bool = False  #: not sent until an operator decides
    parked: bool = False  #: the hub sent it often, and its target never recorded it
    outcome: Outcome | None = None
    reason: Reason | None = None
    digest: bytes = b""
    size: int = 0
    accepted_at: int = 0
    expires_at: int = 0  #: 0: never
    priority: int = 0
    group: GroupPlace | None = None
    document: str = ""  #: of a manifest: name of the document in pieces

    @property
    def source(self) -> str:
        """The sending node; empty for an own row."""
        return str(self.lk0.node) if self.direction is Direction.RELAYED else ""

    @property
    def dest(self) -> str:
        return str(self.target.node)


class OutStream(Struct):
    """A row of tb_0031_stream: the next position of one own stream."""

    key: OutStreamKey
    next_sid: int = 0


class StoredPiece(NamedTuple):
    """A piece of a document in tb_0030."""

    bref: int
    source: str
    size: int


class ArrivedPiece(NamedTuple):
    """A piece of one document, recorded by this node."""

    bref: int
    number: int
    size: int
    digest: bytes


class Pending(Struct):
    """A row of tb_0030: a received message, kept until it is removable."""

    bref: int
    lk0: LK0
    sid: int
    target: Address
    save_fwd: SaveFwd
    ack2: bool
    status: Arrival
    lk1: LK1 | None = None  #: the hub's copy from which it came
    p_ack_status: AckStatus = AckStatus.AS_INIT
    s_ack_status: AckStatus = AckStatus.AS_INIT
    app_status: AppStatus = AppStatus.NEW
    deliveries: int = 0
    prev: Pos | None = None
    order_key: str = ""
    app_key: AppKey = NO_KEY
    reason: Reason | None = None
    digest: bytes = b""
    size: int = 0
    received_at: int = 0
    proved: bool = False  #: a seal or a signature proves its source
    priority: int = 0

    @property
    def source(self) -> str:
        """The institution that sent it."""
        return str(self.lk0.node)

    @property
    def is_class3(self) -> bool:
        """Whether it has class 3. Only then ``s_ack_status`` counts."""
        return self.save_fwd is SaveFwd.MUST

    @property
    def slot(self) -> Slot:
        """The position in the receiver's ledger."""
        return Slot(InStreamKey(self.lk0.store, self.lk0.inc), self.sid)

    @property
    def owes(self) -> bool:
        """Whether the hub or the sender has not confirmed this node's acknowledgement (R9)."""
        return (self.lk1 is not None and self.p_ack_status is AckStatus.AS_INIT) or (
            self.is_class3 and self.s_ack_status is AckStatus.AS_INIT
        )

    @property
    def is_removable(self) -> bool:
        """Whether no acknowledgement is owed and the row is not NEW. The engine may keep parked rows longer."""
        return self.app_status is not AppStatus.NEW and not self.owes


class InStream(Struct):
    """A row of tb_0030_stream: a stream at its receiver."""

    key: InStreamKey
    number: int  #: short key of the stream in tb_0030_ledger
    floor: int = 0  #: positions below it are settled at the sender
    closed: int | None = None  #: number of positions of an ended incarnation; None: not ended, or not known


class Recorded(Struct, frozen=True, gc=False):
    """An entry of tb_0030_ledger (class 3, found by position) or of tb_0030_seen (classes 1 and 2, found by ident)."""

    status: Arrival
    digest: bytes = b""
    reason: Reason | None = None
    proved: bool = False


class Submitted(Struct, frozen=True):
    """A row of tb_0031_submit, written by an application or scheduled by the node."""

    row_id: int
    target: str
    payload: bytes
    app_key: str
    save_fwd: int
    ack2: int
    order_key: str
    token: str
    content_type: str
    #: JSON of the headers from the application; for a document in pieces, of its ``size`` and number of ``pieces``. The
    #: store does not decode it, because an application can write anything. None: not read, or too long for the query
    headers: str | None
    content_encoding: str = ""
    priority: int = 0
    size: int = 0  #: bytes of the submitted payload; above the limit of the query, ``payload`` is empty
    lk0: str = ""  #: LK0 under which it was refused or scheduled; empty: neither
    wait_code: str | None = None  #: why it waits, if noted
    wait_text: str | None = None
    envelope: bytes = b""  #: attributes of a scheduled document
    not_before: int = 0  #: earliest time of sending; 0: at once


class TargetWait(Struct, frozen=True):
    """The first waiting submission to a target. Later submissions to this target are skipped."""

    number: int
    reason: Reason


class SubmissionRefusal(Struct, frozen=True):
    """The refusal of a row of tb_0031_submit, with its LK0 in the ledger."""

    lk0: LK0
    reason: Reason
    at: int


class ClientToken(Struct, frozen=True, gc=False):
    """The message that was submitted with a client token."""

    lk0: LK0
    digest: bytes


class KeptKey(Struct, frozen=True):
    """A row of semq_session_key: a session key of this node, wrapped for the node itself."""

    id: bytes
    peer: str
    key_id: str  #: id of the node's own key
    alg: str
    text: str  #: the wrapped session key


class KeptReceipts(Struct, frozen=True):
    """A row of semq_receipts: a partner's signature over all receipts of a packet."""

    number: int
    source: str
    signature: str
    leaves: bytes  #: hashes of all receipts; the signature is over the root of their tree


class Certificates(Struct, frozen=True):
    """A row of semq_certificate: the newest known certificates of a node, in PEM."""

    node: str
    pems: tuple[str, ...]


class RetiredStore(Struct, frozen=True):
    """A row of semq_retired_store: a store of the hub that an operator has declared permanently lost."""

    semq_id: int
    semq_db_id: int
    retired_by: str
    why: str

    @property
    def name(self) -> tuple[int, int]:
        """The two numbers with which each LK1 of the store begins."""
        return self.semq_id, self.semq_db_id


class NewPiece(Struct, frozen=True):
    """A new row of tb_0031_piece: a piece of a document that is being submitted."""

    document: int
    number: int
    payload: bytes


class PieceGone(Struct, frozen=True):
    """The deletion of a piece that the receiver's node has recorded."""

    document: int
    number: int


class PiecesGone(Struct, frozen=True):
    """The deletion of all pieces of a document below a number."""

    document: int
    below: int


class NoticeDue(Struct, frozen=True):
    """A new row of tb_0031_piece with number -1: a notice about a document that has ended (PROTOCOL.md section 24)."""

    document: int
    notice: bytes  #: a ``GivenUpNotice`` as JSON


# Changes of tables that few units write.
RareChange = KeptKey | KeptReceipts | Certificates | RetiredStore | NewPiece | PieceGone | PiecesGone | NoticeDue


class Side(IntEnum):
    """The role in which a node wrote a line of the ledger."""

    SENDER = 1
    HUB = 2
    RECEIVER = 3


class Event(IntEnum):
    """The kind of a ledger line. Never renumbered, never reused."""

    ACCEPTED = 1  #: sender: committed
    SENT = 2  #: sender or hub: attempt ``att`` begins
    FORWARDED = 3  #: sender: Ack-Fwd received; hub: forwarded without custody
    STORED = 4  #: sender: Ack-Save received; hub: custody taken
    DELIVERED = 5  #: sender: the receiver recorded it
    REJECTED = 6  #: sender: refused; receiver: recorded as refused
    CANCELLED = 7  #: sender: ended by its void marker; receiver: void marker recorded
    LOST = 8  #: sender: the hub lost the only copy, and the receiver has none
    UNKNOWN = 9  #: sender: ended without knowing whether the receiver has it
    DROPPED = 10  #: sender or hub: class 1 and the target offline
    AGAIN = 11  #: sender or hub: back to SS_INIT, with the reason
    INQUIRED = 12  #: an inquiry was sent; nodes do not write this line at present
    ANSWERED = 13  #: the answer to an inquiry changed the row; nodes do not write this line at present
    VOIDED = 14  #: sender: cancellation or expiry requested; hub: a void marker replaced the stored copy
    RELEASED = 15  #: hub: the stored copy is no longer needed
    #: hub: can never be delivered, or an operator refused the copy; sender: the node refused a submission, or the hub
    #: refused an attempt whose refusal does not end the message
    REFUSED = 16
    RECEIVED = 20  #: receiver: recorded
    DUPLICATE = 21  #: receiver or hub: a copy of a known message
    PLATFORM_ACKED = 22  #: receiver: ReAck received
    SENDER_ACKED = 23  #: receiver: ReAck2 received
    GIVEN = 24  #: receiver: given to the application, delivery ``att``
    DONE = 25  #: receiver: the application has acknowledged it
    PARKED = 26  #: receiver: set aside, or unreadable; hub: its target never answered; sender or hub: unreadable body
    MISMATCH = 27  #: receiver or hub: a known identity with different bytes
    VIOLATION = 28  #: a peer sent something impossible
    OPERATOR = 29  #: act of an operator or of the node (resend, hold, …), or a note about a certificate


MARKER = "void marker"  # end of ``detail`` in ledger lines about a void marker instead of the document


class LedgerLine(Struct, frozen=True, gc=False):
    """A line of semq_ledger, written in the transaction of the recorded change."""

    at: int
    side: Side
    event: Event
    lk0: str
    target: str = ""
    att: int = 0
    lk1: str = ""
    app_key: AppKey = NO_KEY
    digest: bytes = b""
    size: int = 0
    detail: str = ""  #: reason code and text, or a person's remark


class Stored(Struct, frozen=True, gc=False):
    """A stored body: the encoded envelope, and the payload."""

    envelope: bytes
    payload: bytes
