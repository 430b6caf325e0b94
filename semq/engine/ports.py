"""The ports of the engine to its surroundings, and the values that pass through them.

A ``Link`` has three implementations that the engine cannot tell apart: an AMQP connection, a loop within the node, and
the simulator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, NamedTuple, Protocol

import msgspec

from semq.seal.errors import CannotSeal, KeyUnknown
from semq.store.rows import KeptKey, Reason
from semq.umx_t.address import Address
from semq.umx_t.agreement import Terms
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Body, Data, Envelope, Frame, Packet
from semq.umx_t.locator import LK0


class Link(Protocol):
    """A session with a neighbour. Sends frames in order per kind (messages, packets); may drop them, never reports."""

    @property
    def peer(self) -> Address:
        """The node at the other end, as authenticated."""

    @property
    def room(self) -> int:
        """The number of messages that may be sent now; packets are never held back."""

    def send(self, frame: Frame) -> None:
        """Send, or drop silently if the session is over: the rows and their timers repair it."""


@dataclass(slots=True)
class Submission:
    """A document that an application hands over."""

    target: Address
    attributes: Attributes
    body: Body
    done: Callable[["Accepted"], None]  #: called after the commit that makes it durable
    failed: Callable[[Exception], None]  #: refused, or its fate is unknown: repeat with the same token
    token: str = ""
    sender: str = ""
    digest: bytes = b""  #: filled in by the engine
    seal: "Seal | None" = None  #: filled in by the engine: the session that seals it
    row_id: int = 0  #: of tb_0031_submit, for what came through SQL or was scheduled
    not_before: int = 0  #: milliseconds since 1970 UTC; until then it waits (``sender.scheduled``)
    scheduled_as: str = ""  #: the name under which it waited


class Accepted(msgspec.Struct, frozen=True):
    """The promise: this message is committed at this node."""

    lk0: LK0
    digest: bytes  #: SHA-256 of the document as it was handed over
    repeated: bool = False  #: the token was known: nothing new was written
    not_before: int = 0  #: it waits until then, under this name; milliseconds since 1970 UTC


class Delivery(msgspec.Struct, frozen=True):
    """A received document on its way to an application."""

    bref: int
    envelope: Envelope
    payload: bytes
    redelivered: bool
    deliveries: int


class Inbox(Protocol):
    """The consumers of received documents."""

    def free(self, user: str) -> int:
        """Return how many documents the consumers of this user can take now."""

    def give(self, user: str, delivery: Delivery) -> None:
        """Hand over; the answer comes back through ``finish``, ``give_back`` or ``fail``."""


class AppEvent(msgspec.Struct, frozen=True):
    """An event for an application about a document of its own."""

    kind: str  #: sent, forwarded, stored, delivered, failed; refused: not taken, hand it over again
    lk0: LK0 | None  #: None: it was not accepted
    target: Address | None  #: None: what was given as its target is no address
    app_key: AppKey
    at: int
    att: int = 0
    outcome: str = ""
    reason: Reason | None = None
    token: str = ""
    submission: int = 0  #: number that ``semq_send`` returned
    corrects: str = ""  #: the outcome that was told before, by the hub's word alone


class PreparedEvent(Protocol):
    """An event on its way into queues."""

    @property
    def ops(self) -> Sequence[Any]:
        """Rows for the durable ones, to be committed with the change that the event tells of."""


class Events(Protocol):
    """The destination of application events: the topic exchange ``semq.events``."""

    def prepare(self, event: AppEvent) -> PreparedEvent | None:
        """Return the event for the queues bound to it, or None if there are none."""

    def publish(self, prepared: Sequence[Any]) -> None:
        """The transaction is durable: hand the events to the queues."""


class OpenedPayload(NamedTuple):
    """A payload in clear."""

    payload: bytes
    digest: bytes  #: its SHA-256
    is_proved: bool = False  #: whether opening it has proved who sent it

    @classmethod
    def in_clear(cls, body: Body) -> "OpenedPayload":
        """Return a payload that was never sealed."""
        return cls(bytes(body), sha256(body).digest())


class Believed(msgspec.Struct, frozen=True):
    """A packet whose signature was checked: what is kept of receipts, so that each can be proved."""

    signature: str
    leaves: bytes  #: the hashes of the statements, one after the other, in the order of the records
    binds_place: bool = True  #: each record says the position that it speaks of; older versions leave it out


class Seal(Protocol):
    """A session key, ready for documents to one partner."""

    kept: KeptKey | None  #: to be written with the first documents under it; None once that is committed

    def seal(self, envelope: Envelope, payload: Body, digest: bytes) -> tuple[Envelope, bytes]:
        """Envelope and body as they are stored and travel; ``digest`` is the SHA-256 of the payload."""

    def noted(self) -> None:
        """``kept`` is committed."""


class CertificateNews(msgspec.Struct, frozen=True):
    """A certificate of a partner that was not known before."""

    node: str
    fingerprint: str
    key_id: str
    is_first: bool  #: no certificate of the node was ever known
    is_vouched: bool  #: a key of the node that was known vouches for it


class Secrecy(Protocol):
    """Seals and signs what leaves for partners; opens, checks and believes what arrives."""

    # --- what arrives, before it is recorded
    def takes_floor(self, source: Address) -> bool:
        """Whether the floor in a message of an institution counts; if not, only that of its signed ReAck2 does."""

    def check_marker(self, envelope: Envelope) -> bool:
        """Whether the sender of a void marker is proved. Raises ProtocolViolation or Unavailable if it has to be."""

    def check_origin(self, message: Data) -> bool:
        """Whether the sender of a document is proved, whether or not it can be opened. Raises the same."""

    def open(self, envelope: Envelope, body: Body) -> OpenedPayload:
        """The payload in clear. Raises SemqError with the reason if it cannot be read: it is then recorded as REJ, as
        far as its sender is proved."""

    # --- what leaves, and what others say

    def seal_for(self, target: Address, attributes: Attributes) -> Seal | None:
        """The session for a document, or None if it travels in clear. Raises SemqError if it must not and cannot."""

    def session_of(self, envelope: Envelope) -> bytes:
        """The name of the session key of a sealed message."""

    def wrap_again(self, envelope: Envelope, kept: KeptKey, new: Envelope, code: str) -> Envelope | None:
        """``new`` as the message that sends the ciphertext of one again that was refused for ``code``; None while that
        cannot help."""

    def sign(self, packet: Packet) -> Packet:
        """A packet for another institution, signed if this node has a certificate."""

    def sign_marker(self, envelope: Envelope) -> Envelope:
        """A void marker as it leaves, signed if this node has a certificate."""

    def sign_documents(self, target: Address, frames: Sequence[Data]) -> list[Data]:
        """Documents as they leave together for an institution, signed if this node has a certificate."""

    def signing_key(self) -> str:
        """The id of the key that this node signs with; empty if it has none."""

    def is_outdated(self, envelope: Envelope) -> bool:
        """Whether this node has sealed a document under a key that is not its present one."""

    def believe(self, packet: Packet) -> Believed | None:
        """Check a packet of another institution. Raises SemqError if it is not to be believed."""

    def introduction(self) -> tuple[str, ...]:
        """The certificates of this node, for the directory."""

    def news(self) -> list[CertificateNews]:
        """Certificates of partners that were not known before, each told once."""

    def heard(self, node: str, certificates: Sequence[str]) -> bool:
        """News of the directory about a partner; whether refused documents may now be sealed for it again."""

    def known(self, node: str) -> tuple[str, ...] | None:
        """The certificates of a partner that are believed, for the next start; None if there never was one."""


class Directory(Protocol):
    """Which institutions the hub serves, and who may send to whom."""

    def nodes(self) -> Sequence[Address]:
        """All institutions."""

    def serves(self, node: Address) -> bool:
        """Whether it is one of them."""

    def may_send(self, source: Address, target: Address) -> bool:
        """Whether an agreement allows it."""

    def terms(self, source: Address, target: Address) -> tuple[Terms, ...] | None:
        """Return the terms of a pair; None where no agreements are in force."""

    def refuse(self, envelope: Envelope, size: int, waiting: Callable[[str, str], int]) -> Reason | None:
        """Why a message can never be delivered (section 18), or None; ``waiting`` counts the copies held of a pair."""

    def introduce(self, node: Address, certificates: Sequence[str]) -> tuple[str, ...] | None:
        """A node says its certificates; what is now known of it, or None if that is no news. Raises SemqError."""

    def certificates(self, node: Address) -> tuple[str, ...] | None:
        """The certificates of an institution, PEM; None where nothing is known, which is no news."""


class NoEvents:
    """Events without a destination."""

    def prepare(self, event: AppEvent) -> None:
        return None

    def publish(self, prepared: Sequence[Any]) -> None:
        return None


class InClear:
    """A node without a certificate: nothing is sealed, nothing is said to be, and what is sealed is not for it."""

    def takes_floor(self, source: Address) -> bool:
        return True

    def check_marker(self, envelope: Envelope) -> bool:
        return False

    def check_origin(self, message: Data) -> bool:
        return False

    def open(self, envelope: Envelope, body: Body) -> OpenedPayload:
        if envelope.is_sealed or envelope.attributes.encrypt:
            raise KeyUnknown(f"The session key was wrapped for key {envelope.key_id}; this node has no certificate.")
        return OpenedPayload.in_clear(body)

    def seal_for(self, target: Address, attributes: Attributes) -> Seal | None:
        if attributes.encrypt:
            raise CannotSeal(
                "This node has no certificate, so it cannot seal documents.", target=str(target.node)
            ).with_remedy("Enrol this node (`semq node enroll`), or send without @Encrypt=1 if that is allowed.")
        return None

    def session_of(self, envelope: Envelope) -> bytes:
        return b""

    def wrap_again(self, envelope: Envelope, kept: KeptKey, new: Envelope, code: str) -> Envelope | None:
        return None

    def sign(self, packet: Packet) -> Packet:
        return packet

    def sign_marker(self, envelope: Envelope) -> Envelope:
        return envelope

    def sign_documents(self, target: Address, frames: Sequence[Data]) -> list[Data]:
        return list(frames)

    def signing_key(self) -> str:
        return ""

    def is_outdated(self, envelope: Envelope) -> bool:
        return False

    def believe(self, packet: Packet) -> Believed | None:
        return None

    def introduction(self) -> tuple[str, ...]:
        return ()

    def news(self) -> list[CertificateNews]:
        return []

    def heard(self, node: str, certificates: Sequence[str]) -> bool:
        return False

    def known(self, node: str) -> tuple[str, ...] | None:
        return None


@dataclass(slots=True)
class Counters:
    """Counts of actions since the start, for metrics; names are the words of the ledger."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, count: int = 1) -> None:
        """Count something that happened."""
        self.counts[name] = self.counts.get(name, 0) + count


def runs(frames: Sequence[Frame]) -> Iterator[list[Data] | Packet]:
    """Yield frames that were read together, in order: adjacent messages as one list, each packet by itself."""
    messages: list[Data] = []
    for frame in frames:
        if isinstance(frame, Data):
            messages.append(frame)
            continue
        if messages:
            yield messages
            messages = []
        yield frame
    if messages:
        yield messages
