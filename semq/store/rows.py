"""The rows as values: one class a table, in the words of PROTOCOL.md section 3. Read and changed through ``unit.Unit``.

Bodies live apart from the narrow rows, so that a change of status rewrites tens of bytes. Times are milliseconds since
1970 UTC.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

from semq.umx_t.address import Address
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0, LK1, Pos, Store
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus

Reason = tuple[str, str]  # code SEMQ-nnnn, text
# Outcomes that may have been told by the platform's word alone: that of the receiver makes DELIVERED of them (S5c).
CORRECTED = frozenset({Outcome.REJECTED, Outcome.DROPPED})


class OutStreamKey(NamedTuple):
    """A stream at its sender: destination node and incarnation."""

    dest: str
    inc: int


class InStreamKey(NamedTuple):
    """A stream at its receiver: source store and incarnation."""

    store: Store
    inc: int


class Slot(NamedTuple):
    """A place in the receiver's ledger: stream and position."""

    stream: InStreamKey
    sid: int


class OrderKey(NamedTuple):
    """One order of documents at the sender: destination node and the application's key."""

    dest: str
    key: str


@dataclass(slots=True)
class Outbound:
    """A row of tb_0031: own (accepted here) or relayed (held by the platform)."""

    object_id: int
    direction: Direction
    lk0: LK0
    target: Address
    save_fwd: SaveFwd
    ack2: bool
    ss_status: SendStatus = SendStatus.SS_INIT
    att: int = 0
    sid: int = -1
    prev: Pos | None = None
    order_key: str = ""
    app_key: AppKey = NO_KEY
    token: str | None = None
    custodian: LK1 | None = None
    void: bool = False
    lost: bool = False
    has_payload: bool = True
    held: bool = False  #: an operator holds it back
    parked: bool = False  #: the platform sent it often, and its target never recorded it
    outcome: Outcome | None = None
    reason: Reason | None = None
    digest: bytes = b""
    size: int = 0
    accepted_at: int = 0
    expires_at: int = 0
    priority: int = 0

    @property
    def source(self) -> str:
        """Whose copy it is, for turns among those that the platform holds; empty for an own row."""
        return str(self.lk0.node) if self.direction is Direction.RELAYED else ""

    @property
    def dest(self) -> str:
        """The destination node as text: what streams, windows and links are kept by."""
        return str(self.target.node)


@dataclass(slots=True)
class OutStream:
    """A row of tb_0031_stream: the next position of one stream. Closed when the incarnation is over."""

    key: OutStreamKey
    next_sid: int = 0


@dataclass(slots=True)
class Pending:
    """A row of tb_0030: what has been received, until both acknowledgements are noted and the application has it."""

    bref: int
    lk0: LK0
    sid: int
    target: Address
    save_fwd: SaveFwd
    ack2: bool
    status: Arrival
    lk1: LK1 | None = None
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
    proved: bool = False  #: a seal or a signature proves that it comes from the institution that it names
    priority: int = 0

    @property
    def source(self) -> str:
        """The institution that it came from, for turns among those of one user."""
        return str(self.lk0.node)

    @property
    def is_class3(self) -> bool:
        """Whether its sender must come to know (need flag of ``s_ack_status``)."""
        return self.save_fwd is SaveFwd.MUST

    @property
    def slot(self) -> Slot:
        """Its place in the ledger."""
        return Slot(InStreamKey(self.lk0.store, self.lk0.inc), self.sid)

    @property
    def owes(self) -> bool:
        """Whether one of our acknowledgements is not known to be noted (rule R9 of section 5.3)."""
        return (self.lk1 is not None and self.p_ack_status is AckStatus.AS_INIT) or (
            self.is_class3 and self.s_ack_status is AckStatus.AS_INIT
        )

    @property
    def is_done(self) -> bool:
        """Whether the row may be cleaned: by acknowledgement state only, never by age (row Q13)."""
        return self.app_status is not AppStatus.NEW and not self.owes


@dataclass(slots=True)
class InStream:
    """A row of tb_0030_stream: how far the sender has settled, and whether the incarnation is over."""

    key: InStreamKey
    number: int
    floor: int = 0
    closed: int | None = None


@dataclass(slots=True, frozen=True)
class Recorded:
    """A row of tb_0030_ledger: one position of a stream is taken, and by what."""

    status: Arrival
    digest: bytes = b""
    reason: Reason | None = None
    proved: bool = False


@dataclass(slots=True, frozen=True)
class Submitted:
    """A row of tb_0031_submit: what an application wrote in its own transaction (row B1)."""

    row_id: int
    target: str
    payload: bytes
    app_key: str
    save_fwd: int
    ack2: int
    order_key: str
    token: str
    content_type: str
    headers: dict[str, Any]
    content_encoding: str = ""
    priority: int = 0
    size: int = 0  #: of the payload, which is left out where it is larger than the query asked for
    lk0: str = ""  #: the name of its refusal
    wait_code: str | None = None  #: why it waits, as was noted last
    wait_text: str | None = None


@dataclass(slots=True, frozen=True)
class Wait:
    """Why the submissions to a target are passed over: the first that waits, and its reason."""

    number: int
    reason: Reason


@dataclass(slots=True, frozen=True)
class Refusal:
    """Why a row of tb_0031_submit was refused, and under which name that stands in the ledger."""

    lk0: LK0
    reason: Reason
    at: int


@dataclass(slots=True, frozen=True)
class Token:
    """What a client token stands for: a repeat of the same submission is answered with the same message."""

    lk0: LK0
    digest: bytes


@dataclass(slots=True, frozen=True)
class KeptKey:
    """A row of semq_session_key: a session key of ours, wrapped for ourselves, so that it can be wrapped again."""

    id: bytes
    peer: str
    key_id: str  #: our own key, for which it is wrapped
    alg: str
    text: str


@dataclass(slots=True, frozen=True)
class KeptReceipts:
    """A row of semq_receipts: what a partner signed, once for all receipts of a packet."""

    number: int
    source: str
    signature: str
    leaves: bytes


@dataclass(slots=True, frozen=True)
class Certificates:
    """A row of semq_certificate: what the directory last said of the certificates of a node, PEM."""

    node: str
    pems: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class RetiredStore:
    """A row of semq_retired_store: a store of the platform that is lost for good, by the word of an operator."""

    semq_id: int
    semq_db_id: int
    retired_by: str
    why: str

    @property
    def name(self) -> tuple[int, int]:
        """The two numbers that every LK1 of the store begins with."""
        return self.semq_id, self.semq_db_id


Rare = KeptKey | KeptReceipts | Certificates | RetiredStore


class Side(IntEnum):
    """As whom a node wrote a line of the ledger."""

    SENDER = 1
    HUB = 2
    RECEIVER = 3


class Event(IntEnum):
    """What a line of the ledger says. Never renumbered, never reused."""

    ACCEPTED = 1  #: sender: committed, promised to the application
    SENT = 2  #: sender or hub: about to be sent, attempt ``att``
    FORWARDED = 3  #: sender: Ack-Fwd heard; hub: passed on without custody
    STORED = 4  #: sender: Ack-Save heard; hub: custody taken
    DELIVERED = 5  #: sender: the receiver recorded it
    REJECTED = 6  #: sender: refused; receiver: recorded as refused
    CANCELLED = 7  #: sender: ended by its void marker; receiver: void marker recorded
    LOST = 8  #: sender
    UNKNOWN = 9  #: sender
    DROPPED = 10  #: sender or hub: class 1 and the target offline
    AGAIN = 11  #: sender or hub: back to SS_INIT, the reason says why
    INQUIRED = 12  #: an inquiry was sent
    ANSWERED = 13  #: an inquiry's answer was heard and changed the row
    VOIDED = 14  #: sender: cancel or expiry asked for
    RELEASED = 15  #: hub: the stored copy is no longer needed
    REFUSED = 16  #: hub: can never be delivered; a sender's submission that was turned away
    RECEIVED = 20  #: receiver: recorded
    DUPLICATE = 21  #: receiver or hub: a copy that was known already
    PLATFORM_ACKED = 22  #: receiver: ReAck heard
    SENDER_ACKED = 23  #: receiver: ReAck2 heard
    GIVEN = 24  #: receiver: handed to the application, delivery ``att``
    DONE = 25  #: receiver: the application has it for good
    PARKED = 26  #: receiver: the application failed too often; hub: never answered
    MISMATCH = 27  #: receiver or hub: the same identity with other bytes (row B7): an alarm
    VIOLATION = 28  #: a peer sent what cannot be true; refused
    OPERATOR = 29  #: a person acted, or a rule of this node in one's stead: resend, hold, release, requeue


MARKER = "void marker"  # the end of the detail of a line about a marker instead of the document


@dataclass(slots=True, frozen=True)
class LedgerLine:
    """A line of semq_ledger: append-only, no payload, written in the transaction of the change that it records."""

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
    detail: str = ""  #: reason code and words, or what a person said


@dataclass(slots=True, frozen=True)
class Stored:
    """A body as it lies beside its row: the envelope, encoded, and the payload."""

    envelope: bytes
    payload: bytes
