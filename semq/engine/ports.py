"""The ports of the engine to its surroundings, and the values that pass through them."""

from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec
from msgspec import Struct, field

from semq.engine.sender.positions import HeldSequences
from semq.errors import BadInput, SemqError
from semq.seal.errors import CannotSeal, KeyUnknown
from semq.store.broker.operations import StoreOp
from semq.store.rows import GroupPlace, KeptKey, Reason
from semq.umx_t.address import Address
from semq.umx_t.agreement import Terms
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Body, Data, Envelope, Frame, Packet
from semq.umx_t.locator import LK0
from semq.umx_t.records import Presence


class Link(Protocol):
    """A session with another node. Messages arrive in order, packets arrive in order; lost frames are not reported."""

    @property
    def peer(self) -> Address:
        """The authenticated node at the other end."""

    @property
    def room(self) -> int:
        """The number of messages that may be sent now. Packets need no room."""

    def send(self, frame: Frame) -> None:
        """Send the frame, or drop it if the session has ended."""


@runtime_checkable
class LinkWithDatagrams(Protocol):
    """A link that can also send best-effort documents as datagrams, which need no room."""

    @property
    def takes_datagrams(self) -> bool:
        """Whether datagrams pass now. Without room, ``send`` drops a best-effort document that cannot leave as a
        datagram, because it is too large or the rate is used up."""


def takes_datagrams(link: object) -> bool:
    """Whether best-effort documents can leave as datagrams."""
    return isinstance(link, LinkWithDatagrams) and link.takes_datagrams


class Submission(Struct):
    """A document submitted by an application."""

    target: Address
    attributes: Attributes
    body: Body
    done: Callable[["Accepted"], None]  #: called after the commit that makes it durable
    #: called if the document is refused, or if its acceptance is unknown: then repeat it with the same token
    failed: Callable[[Exception], None]
    token: str = ""
    sender: str = ""  #: user or application
    digest: bytes = b""  #: filled in by the engine
    seal: "Seal | None" = None  #: filled in by the engine
    is_whole: bool = False  #: part of a transaction: any failure is raised, so that all of the transaction fails
    row_id: int = 0  #: id in tb_0031_submit, if submitted through SQL or scheduled
    #: if submitted through SQL or scheduled: the sequences of earlier submissions that wait; the engine adds those that
    #: cannot be accepted now
    held: HeldSequences | None = None
    not_before: int = 0  #: earliest time of sending, in milliseconds since 1970 UTC
    scheduled_as: str = ""  #: the name of a scheduled document
    name: LK0 | None = None  #: of a document in pieces: the LK0 under which it is stored after its pieces; else None
    order: "SubmissionOrder | None" = None  #: the submissions of its publisher; None: they are independent
    place: int = 0  #: in ``order``
    is_under_way: bool = False  #: counted for the quota of its target
    closes_order: bool = True  #: if it is refused as bad input, no later one of ``order`` is accepted
    members: Sequence["Submission"] = ()  #: filled in by the engine if the target is a group
    group: GroupPlace | None = None  #: filled in by the engine for a member
    repeats: "RepeatedDocument | None" = None  #: the document that an operator submits again; None: a new document

    @property
    def is_withdrawn(self) -> bool:
        """Whether an earlier document of its publisher is refused."""
        return self.order is not None and self.order.is_withdrawn(self.place)

    def note_refused(self, error: SemqError) -> None:
        """Note the decision to refuse this document, for the later ones of its publisher."""
        if self.order is not None and self.closes_order and isinstance(error, BadInput):
            self.order.refuse(self.place)


class RepeatedDocument(NamedTuple):
    """A document of this node that ended without delivery, and is submitted again."""

    lk0: LK0
    why: str  #: reason, for the ledger


class SubmissionOrder(Protocol):
    """The submissions of one publisher, in their order."""

    def refuse(self, number: int) -> None:
        """Note that a submission is refused, so that no later one may be accepted."""

    def is_withdrawn(self, number: int) -> bool:
        """Return whether an earlier submission is refused."""


class Accepted(msgspec.Struct, frozen=True):
    """The answer to a submission: the document is committed at this node."""

    lk0: LK0
    digest: bytes  #: SHA-256 of the submitted document
    repeated: bool = False  #: the token was used before
    not_before: int = 0  #: if scheduled: earliest time of sending, in milliseconds since 1970 UTC
    members: int = 0  #: number of messages to members of a group; ``lk0`` names the group submission


class Delivery(msgspec.Struct, frozen=True):
    """A received document on its way to an application."""

    bref: int  #: number of the row of tb_0030
    envelope: Envelope
    payload: bytes
    redelivered: bool  #: the application may have had it before
    deliveries: int  #: number of deliveries, this one included


class Inbox(Protocol):
    """The consumers of received documents."""

    def free(self, user: str) -> int:
        """Return how many documents a user's consumers can take now."""

    def give(self, user: str, delivery: Delivery) -> None:
        """Deliver a document. The consumer's answer goes to a method of ``ApplicationAnswers``."""


class AppEvent(msgspec.Struct, frozen=True):
    """An event for an application about a document that was sent or submitted here."""

    kind: str  #: sent, forwarded, stored, delivered, failed; refused: the submission was not accepted
    lk0: LK0 | None  #: None: the document was not accepted
    target: Address | None  #: None: the given target is not an address
    app_key: AppKey
    at: int  #: milliseconds since 1970 UTC
    att: int = 0  #: number of the attempt; 0: not sent yet
    outcome: str = ""
    reason: Reason | None = None
    token: str = ""
    submission: int = 0  #: number that ``semq_send`` returned
    corrects: str = ""  #: the wrong outcome that an earlier event reported; empty: none
    group: GroupPlace | None = None  #: place in a group submission
    count: int = 1  #: ``refused``: number of documents to this target with this reason since the last event
    tokens: tuple[str, ...] = ()  #: ``refused``: tokens of these documents
    document: str = ""  #: for a manifest: name of the document in pieces; not sent to applications


class PreparedEvent(Protocol):
    """An event, prepared for the queues that get it."""

    @property
    def ops(self) -> Sequence[StoreOp]:
        """Rows of durable queues, to be committed with the change that the event reports."""


class Events(Protocol):
    """The topic exchange ``semq.events``."""

    def prepare(self, event: AppEvent) -> PreparedEvent | None:
        """Return the event for the queues that are bound; None if there are none."""

    def publish(self, prepared: Sequence[Any]) -> None:
        """Put the events into the queues, after the commit."""


class OpenedPayload(NamedTuple):
    """A payload in clear."""

    payload: bytes
    digest: bytes  #: SHA-256
    is_proved: bool = False  #: whether a seal or a signature proves the sender

    @classmethod
    def in_clear(cls, body: Body) -> "OpenedPayload":
        return cls(bytes(body), sha256(body).digest())


class PacketProof(msgspec.Struct, frozen=True):
    """The data that prove a single record of a signed packet later, without the rest of the packet."""

    signature: str
    leaves: bytes  #: the joined hashes of the records, in their order
    binds_place: bool = True  #: each record names the position of its message; False for older versions


class Seal(Protocol):
    """A session key for documents to one partner."""

    kept: KeptKey | None  #: the row to be written with the first documents; None after that commit

    def seal(self, envelope: Envelope, payload: Body, digest: bytes) -> tuple[Envelope, bytes]:
        """Return envelope and body as they are stored and sent. ``digest``: SHA-256 of the payload."""

    def noted(self) -> None:
        """Set ``kept`` to None."""


class CertificateNews(msgspec.Struct, frozen=True):
    """A new certificate of a partner."""

    node: str
    fingerprint: str
    key_id: str
    is_first: bool  #: no certificate of the node was known before
    is_vouched: bool  #: an earlier key of the node has signed the certificate


class Secrecy(Protocol):
    """Sealing, opening, signing and checks of documents and packets."""

    # --- received documents, before they are recorded
    def takes_floor(self, source: Address) -> bool:
        """Whether floors in messages of an institution are accepted; False: only those in its signed ReAck2."""

    def check_marker(self, envelope: Envelope) -> bool:
        """Return whether the sender of a void marker is proved. Raises ProtocolViolation, Unavailable or SignerGone if
        a required proof is missing or wrong."""

    def check_origin(self, message: Data) -> bool:
        """Return whether the sender of a document is proved. Raises the errors of ``check_marker``."""

    def open(self, envelope: Envelope, body: Body) -> OpenedPayload:
        """Return the payload in clear.

        Raises ProtocolViolation, Unavailable or SignerGone if the proof is wrong or cannot be checked: the copy is not
        recorded. Raises another SemqError if the document cannot be read: the copy is recorded as REJ, after
        ``check_origin``."""

    # --- outgoing documents, and packets in both directions; nothing is signed without a certificate of this node

    def seal_for(self, target: Address, attributes: Attributes) -> Seal | None:
        """Return the session key for a document; None: the document is not sealed. Raises SemqError if it must be
        sealed and cannot be."""

    def session_of(self, envelope: Envelope) -> bytes:
        """Return the id of the session key of a sealed message."""

    def wrap_again(self, envelope: Envelope, kept: KeptKey, new: Envelope, code: str) -> Envelope | None:
        """Return ``new`` with the session key of the refused ``envelope``, wrapped for the receiver's present key;
        None if the refused key is the present one, or if a key is missing. ``code``: error code of the refusal."""

    def sign(self, packet: Packet) -> Packet:
        """Sign a packet if it needs a signature."""

    def sign_marker(self, envelope: Envelope) -> Envelope:
        """Sign a void marker."""

    def sign_documents(self, target: Address, frames: Sequence[Data]) -> list[Data]:
        """Sign the documents of one batch for an institution."""

    def signing_key(self) -> str:
        """Return the id of this node's signing key; empty if it has none."""

    def is_outdated(self, envelope: Envelope) -> bool:
        """Whether the session key of a document of this node was signed with an earlier key of this node."""

    def verify_packet(self, packet: Packet) -> PacketProof | None:
        """Check the signature of a packet; return None if no signature was checked. Raises SemqError if a signature is
        wrong, or missing where it is required."""

    def introduction(self) -> tuple[str, ...]:
        """Return the certificates of this node."""

    def news(self) -> list[CertificateNews]:
        """Return the certificates of partners that are new since the last call."""

    def learn(self, node: str, certificates: Sequence[str]) -> bool:
        """Learn a partner's certificates; return whether the key for sealing has changed."""

    def known(self, node: str) -> tuple[str, ...] | None:
        """Return the accepted certificates of a partner; None if none was ever accepted."""

    def successors(self, node: str, certificates: Sequence[str]) -> tuple[str, ...]:
        """Return the certificates that are newer than all known ones of a partner and signed by one of its known
        keys."""


class Directory(Protocol):
    """The institutions of the hub, and the pairs that may exchange documents."""

    def partners(self, node: Address) -> Sequence[Address]:
        """Return the institutions that may send documents to ``node`` or receive them from it; ``node`` may be among
        them."""

    def groups(self, node: Address) -> Sequence[Presence]:
        """Return records of the groups to which an institution may send."""

    def users(self, node: Address) -> Collection[str]:
        """Return the users whom the definitions name for an institution."""

    def serves(self, node: Address) -> bool:
        """Whether the hub has this institution."""

    def may_send(self, source: Address, target: Address) -> bool: ...

    def terms(self, source: Address, target: Address) -> tuple[Terms, ...] | None:
        """Return the terms of a pair; None: no agreement restricts it."""

    def refuse(self, envelope: Envelope, size: int, waiting: Callable[[str, str], int]) -> Reason | None:
        """Return why a message is refused (PROTOCOL.md section 18); None: it is not. ``waiting`` returns the number of
        stored copies of a source and target."""

    def introduce(self, node: Address, certificates: Sequence[str]) -> tuple[str, ...] | None:
        """Keep the certificates that a node presents; return all known ones (None: nothing has changed). Raises
        SemqError if they are refused."""

    def certificates(self, node: Address) -> tuple[str, ...] | None:
        """Return an institution's certificates in PEM; None if none is known."""


class NoEvents:
    """A destination that drops events."""

    def prepare(self, event: AppEvent) -> None:
        return None

    def publish(self, prepared: Sequence[object]) -> None:
        return None


class InClear:
    """The secrecy of a node without a certificate: nothing is sealed or signed; documents that must be sealed are
    refused."""

    def takes_floor(self, source: Address) -> bool:
        return True

    def check_marker(self, envelope: Envelope) -> bool:
        return False

    def check_origin(self, message: Data) -> bool:
        return False

    def open(self, envelope: Envelope, body: Body) -> OpenedPayload:
        if envelope.is_sealed or envelope.attributes.encrypt:
            raise KeyUnknown("This node has no certificate, so it cannot open sealed documents.", key=envelope.key_id)
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

    def verify_packet(self, packet: Packet) -> PacketProof | None:
        return None

    def introduction(self) -> tuple[str, ...]:
        return ()

    def news(self) -> list[CertificateNews]:
        return []

    def learn(self, node: str, certificates: Sequence[str]) -> bool:
        return False

    def known(self, node: str) -> tuple[str, ...] | None:
        return None

    def successors(self, node: str, certificates: Sequence[str]) -> tuple[str, ...]:
        return ()


class Counters(Struct):
    """Counts of events since the start."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, count: int = 1) -> None:
        """Count an event under its name in ``semq.counters``."""
        self.counts[name] = self.counts.get(name, 0) + count


def runs(frames: Sequence[Frame]) -> Iterator[list[Data] | Packet]:
    """Yield frames in order: adjacent messages as one list, each packet by itself."""
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
