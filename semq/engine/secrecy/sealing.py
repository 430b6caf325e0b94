"""Sealing: session keys for partners, opening, signing and checks of signatures.

``Sealing`` holds session keys in memory, so a node keeps its ``Sealing`` when it builds its engine again.

Without proofs of documents, receipts, answers, floors and void markers, a hub could end messages or replace documents.
``Policy`` names the partners that need no proof.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from hashlib import sha256
from typing import NoReturn, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from semq.clock import Clock
from semq.engine.ports import CertificateNews, OpenedPayload, PacketProof, Seal
from semq.engine.secrecy.binding import authenticated_data, document_content, marker_content, sealed_as
from semq.errors import SemqError
from semq.seal.errors import (
    CannotSeal,
    NotSealed,
    OriginUnproved,
    ReceiptForged,
    SealBroken,
    SignatureWrong,
    SignerAwaited,
    SignerGone,
    SignerUnknown,
)
from semq.seal.keys import PrivateKey, PublicKey, alg_of, key_id, verify
from semq.seal.opened import OpenedKeys, unwrap_session_key
from semq.seal.origin import read_origin, write_origins
from semq.seal.receipts import Statement, leaf, packet_message, read_signature, root, tree_message, write_signature
from semq.seal.session import OVERHEAD, RANDOM_LENGTH, SECRET_LENGTH, KeyLimits, SessionKey, wrapped_for
from semq.seal.token import read_token
from semq.store.rows import KeptKey
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Body, Data, Envelope, Function, Packet, Primitive
from semq.umx_t.records import InquiryRole, Receipt, encode_records

EVERYBODY = "*"
SESSIONS_MAX = 10_000  # partners with a session key in memory
WAITING_MAX = 10_000  # documents and nodes that wait for a certificate
VERIFIED_MAX = 1024  # remembered valid signatures over documents


class KeyHolder(Protocol):
    """Keys of this node, and the accepted certificates of partners. Methods without a text are as in ``Secrecy``."""

    @property
    def signing(self) -> PrivateKey | None:
        """The key of the active certificate."""

    def own(self, key_id: str) -> PrivateKey | None:
        """Return a key of this node, also a retired one; None if it is unknown."""

    def receiver(self, node: str) -> PublicKey | None:
        """Return the key for which session keys are wrapped; None without a valid certificate of the node."""

    def signer(self, node: str, key_id: str) -> PublicKey:
        """Return the key with which a node signed. Raises SignerUnknown."""

    def knows(self, node: str) -> bool:
        """Return whether a certificate of the node was ever accepted."""

    def introduction(self) -> tuple[str, ...]:
        """Return the certificates of this node in PEM, the active one first."""

    def learn(self, node: str, certificates: Sequence[str]) -> bool: ...

    def known(self, node: str) -> tuple[str, ...]:
        """Return the accepted certificates of a partner in PEM."""

    def successors(self, node: str, certificates: Sequence[str]) -> tuple[str, ...]: ...

    def check_all(self) -> None:
        """Check all known certificates again; keep those that are valid now."""

    def news(self) -> list[CertificateNews]: ...


class Policy(Struct, frozen=True):
    """The documents that must be sealed, and the nodes whose statements count without a proof."""

    required_with: Collection[str] = ()  #: node ids to and from which documents must be sealed (``*``: all)
    #: ids of nodes of an older version, which signs no floors, no markers, and no positions in receipts
    unsigned_floors_from: Collection[str] = ()
    unproved_from: Collection[str] = ()  #: node ids whose documents and receipts count without a proof
    #: whether documents and receipts count without a proof also if no certificate of their node was ever accepted
    mixed: bool = False
    limits: KeyLimits = field(default_factory=KeyLimits)
    patience_s: float = 60.0  #: longest wait for the certificate of a signer

    def requires(self, node: Address) -> bool:
        return node.id in self.required_with or EVERYBODY in self.required_with

    def believes(self, node: Address) -> bool:
        """Whether statements of a node count without a proof, also if they are signed with an unknown key."""
        return node.id in self.unproved_from and not self.requires(node)

    def is_older(self, node: Address) -> bool:
        """Whether a node signs in the form of an older version."""
        return node.id in self.unsigned_floors_from


class PartnerSession(Seal):
    """A session key for documents to one partner."""

    def __init__(
        self, key: SessionKey, kept: KeptKey, own: PrivateKey, receiver: PublicKey, draw: Callable[[int], bytes]
    ) -> None:
        self._draw = draw
        self.key = key
        self.own = own
        self.receiver = receiver
        self.kept: KeptKey | None = kept

    def seal(self, envelope: Envelope, payload: Body, digest: bytes) -> tuple[Envelope, bytes]:
        key, original = self.key, sealed_as(envelope)
        sealed = replace(
            envelope, session_key=key.text, alg=key.alg, key_id=key.key_id, digest=key.digest(original.ident, digest)
        )
        data = authenticated_data(sealed, original.place, key.id, len(payload))
        return sealed, key.seal(payload, data, self._draw(RANDOM_LENGTH))

    def is_over(self, own: PrivateKey, receiver: PublicKey, now: float) -> bool:
        return self.own is not own or self.receiver is not receiver or self.key.is_over(now)

    def noted(self) -> None:
        self.kept = None


class Sealing:
    """Implements ``ports.Secrecy``."""

    def __init__(
        self, node: Address, keys: KeyHolder, clock: Clock, draw: Callable[[int], bytes], policy: Policy
    ) -> None:
        """``draw(n)`` returns n random bytes."""
        self.node = node
        self._me = str(node)
        self.keys = keys
        self.policy = policy
        self._clock = clock
        self._draw = draw
        self._sessions: dict[str, PartnerSession] = {}
        self._opened = OpenedKeys(keys.own, keys.signer)
        #: Start of the wait for a certificate (monotonic seconds), by LK0 or node.
        self._waiting: OrderedDict[str, float] = OrderedDict()
        self._verified: OrderedDict[tuple[str, bytes, bytes], None] = OrderedDict()  #: (key, signed content, signature)

    # --- documents that leave
    def seal_for(self, target: Address, attributes: Attributes) -> PartnerSession | None:
        """Return the session key for a document; None: it is not sealed. Raises CannotSeal."""
        node = target.node
        if not attributes.encrypt and not (node != self.node and self.policy.requires(node)):
            return None
        name = str(node)
        own, receiver, session = self.keys.signing, self.keys.receiver(name), self._sessions.get(name)
        if receiver is None or own is None:
            raise CannotSeal(target=name, certificate_here=own is not None)
        if session is None or session.is_over(own, receiver, self._clock.monotonic()):
            session = self._begin(name, own, receiver)
        return session

    def _begin(self, name: str, own: PrivateKey, receiver: PublicKey) -> PartnerSession:
        if len(self._sessions) >= SESSIONS_MAX:
            self._sessions.clear()
        now = self._clock.monotonic()
        key = SessionKey(self._draw(SECRET_LENGTH), own, str(self.node), receiver, name, now, self.policy.limits)
        kept = KeptKey(
            key.id, name, key_id(own.public_key()), alg_of(own), key.wrapped_for_storage(own, str(self.node))
        )
        session = self._sessions[name] = PartnerSession(key, kept, own, receiver, self._draw)
        return session

    def wrap_again(self, envelope: Envelope, kept: KeptKey, new: Envelope, code: str) -> Envelope | None:
        receiver, own = self.keys.receiver(str(envelope.target.node)), self.keys.signing
        if receiver is None or own is None:
            return None
        # SEMQ-5214 rejects this node's key, SEMQ-5201 the receiver's.
        refused, now = (
            (read_token(envelope.session_key).signer_key_id, key_id(own.public_key()))
            if code == SignerGone.code
            else (envelope.key_id, key_id(receiver))
        )
        if refused == now:
            return None
        secret = self._secret(kept)
        origin = sealed_as(envelope).place
        again = replace(new, origin=origin, alg=alg_of(receiver), key_id=key_id(receiver), digest=envelope.digest)
        resent = sealed_as(again).resent
        text = wrapped_for(secret, own, str(self.node), receiver, str(envelope.target.node), resent)
        return replace(again, session_key=text)

    def salt(self, kept: KeptKey, ident: str) -> bytes:
        """Return the salt of the digest of a sealed message of this node."""
        return self._opened.get(kept.text, kept.alg, kept.key_id, str(self.node), str(self.node)).salt(ident)

    def open_own(self, kept: KeptKey, envelope: Envelope, body: bytes) -> bytes:
        """Return the payload of a sealed message of this node. Raises KeyUnknown, SealBroken."""
        opening = self._opened.get(kept.text, kept.alg, kept.key_id, self._me, self._me)
        place = sealed_as(envelope).place
        return opening.open(body, authenticated_data(envelope, place, opening.id, len(body) - OVERHEAD))

    def _secret(self, kept: KeptKey) -> bytes:
        me = str(self.node)
        return unwrap_session_key(kept.text, kept.alg, kept.key_id, me, me, "", self.keys.own, self.keys.signer)

    # --- documents that arrive
    def open(self, envelope: Envelope, body: Body) -> OpenedPayload:
        """Return the payload in clear.

        Raises NotSealed, KeyUnknown, SealMalformed: the document is refused. Raises SealBroken, SignatureWrong,
        SignerUnknown, SignerAwaited, SignerGone: nothing in this copy is proved.
        """
        source = envelope.lk0.node
        if not envelope.is_sealed:
            if envelope.attributes.encrypt or (source != self.node and self.policy.requires(source)):
                raise NotSealed(source=str(source))
            return OpenedPayload.in_clear(body)
        if not envelope.attributes.encrypt:
            raise SealBroken("The document is sealed, but its attributes state that it is not.", lk0=envelope.ident)
        original = sealed_as(envelope)
        try:
            opening = self._opened.get(
                envelope.session_key, envelope.alg, envelope.key_id, str(source), self._me, original.resent
            )
        except SignerUnknown as error:
            self._raise_unknown_signer(original.ident, source, error)
        size = len(body) - OVERHEAD
        payload = opening.open(body, authenticated_data(envelope, original.place, opening.id, size))
        digest = sha256(payload).digest()
        if opening.digest(original.ident, digest) != envelope.digest:
            raise SealBroken("The digest is not that of the document.", lk0=envelope.ident)
        return OpenedPayload(payload, digest, is_proved=True)

    def _raise_unknown_signer(self, ident: str, source: Address, error: SignerUnknown) -> NoReturn:
        """Raise SignerAwaited while the certificate may still arrive; then SignerGone if the source has a valid
        certificate for another key, else SignerUnknown."""
        self._raise_awaited(ident, error)
        if self.keys.receiver(str(source)) is not None:
            raise SignerGone.of(str(error.facts["key_id"])) from error
        raise error

    def _raise_awaited(self, ident: str, error: SignerUnknown) -> None:
        """Raise SignerAwaited for ``patience_s``, then do nothing."""
        now, is_first = self._clock.monotonic(), ident not in self._waiting
        since = self._waiting.setdefault(ident, now)
        if len(self._waiting) > WAITING_MAX:
            self._waiting.popitem(last=False)
        if now - since < self.policy.patience_s:
            awaited = SignerAwaited(**error.facts)
            awaited.is_first = is_first
            raise awaited from error

    def check_origin(self, message: Data) -> bool:
        """Return whether the sender of a document is proved; False only if no proof is required.

        Raises OriginUnproved, ReceiptForged, SignatureWrong, and the errors of ``open``.
        """
        envelope = message.envelope
        source = envelope.lk0.node
        if source == self.node:
            return True
        if envelope.signature:
            return self._check_signed(message, source)
        # Opening the seal proves the sender, if the body is complete.
        if envelope.is_sealed and not (envelope.late or message.dropped):
            return self.open(envelope, message.body).is_proved
        if self._must_sign(source):
            raise OriginUnproved(lk0=envelope.ident)
        return False

    def _check_signed(self, message: Data, source: Address) -> bool:
        envelope, name = message.envelope, str(source)
        origin = read_origin(envelope.signature)
        try:
            key = self.keys.signer(name, origin.key_id)
        except SignerUnknown as error:
            if self.policy.believes(source):
                return False
            self._raise_unknown_signer(sealed_as(envelope).ident, source, error)
        if not envelope.late and message.size != origin.size:
            raise SignatureWrong("The body does not have the length that its sender stated.", lk0=envelope.ident)
        signed = origin.message(name, self._me, document_content(envelope))
        checked = origin.key_id, signed, origin.signature
        if checked not in self._verified:
            verify(key, origin.signature, signed)
            self._verified[checked] = None
            if len(self._verified) > VERIFIED_MAX:
                self._verified.popitem(last=False)
        return True

    def takes_floor(self, source: Address) -> bool:
        return self.policy.is_older(source) or not self._must_sign(source)

    def check_marker(self, envelope: Envelope) -> bool:
        """Whether the sender of a void marker is proved.

        Raises ReceiptForged, SignatureWrong, SignerUnknown, SignerAwaited, SignerGone.
        """
        source = envelope.lk0.node
        if envelope.signature:
            signer_key_id, signature = read_signature(envelope.signature)
            try:
                key = self.keys.signer(str(source), signer_key_id)
            except SignerUnknown as error:
                if self.policy.believes(source):
                    return False
                self._raise_unknown_signer(envelope.ident, source, error)
            verify(key, signature, marker_content(envelope))
            return True
        if not self.takes_floor(source):
            raise ReceiptForged("The void marker is not signed.", lk0=envelope.ident)
        return source == self.node

    # --- statements of nodes about messages
    def _must_sign(self, source: Address) -> bool:
        if source == self.node or self.policy.believes(source):
            return False
        return self.policy.requires(source) or not self.policy.mixed or self.keys.knows(str(source))

    def sign_documents(self, target: Address, frames: Sequence[Data]) -> list[Data]:
        """Sign the documents among ``frames`` if this node has a key; markers are signed by ``sign_marker``."""
        key, node = self.keys.signing, target.node
        if key is None or node == self.node:
            return list(frames)
        facts = [
            (document_content(frame.envelope), frame.bare or len(frame.body))
            for frame in frames if not frame.envelope.void
        ]  # fmt: skip
        signatures = iter(write_origins(key, self._me, str(node), facts))
        return [
            frame if frame.envelope.void
            else replace(frame, envelope=replace(frame.envelope, signature=next(signatures)))
            for frame in frames
        ]  # fmt: skip

    def signing_key(self) -> str:
        own = self.keys.signing
        return key_id(own.public_key()) if own is not None else ""

    def is_outdated(self, envelope: Envelope) -> bool:
        own = self.signing_key()
        return bool(own and envelope.session_key) and read_token(envelope.session_key).signer_key_id != own

    def sign_marker(self, envelope: Envelope) -> Envelope:
        key = self.keys.signing
        if key is None or envelope.target.node == self.node:
            return envelope
        return replace(envelope, signature=write_signature(key, marker_content(envelope)))

    def sign(self, packet: Packet) -> Packet:
        key = self.keys.signing
        if key is None or not _is_testimony(packet) or packet.target.node == self.node:
            return packet
        if _is_receipts(packet):
            _, message = _tree(packet, is_older=self.policy.is_older(packet.target.node))
            return replace(packet, signature=write_signature(key, message))
        body = encode_records(packet.records)
        return replace(packet, body=body, signature=write_signature(key, _message(packet, body)))

    def verify_packet(self, packet: Packet) -> PacketProof | None:
        """Check the signature of a packet; return None if no signature was checked. Raises ReceiptForged,
        SignatureWrong, SignerUnknown, SignerAwaited."""
        source = packet.source.node
        if not _is_testimony(packet) or source == self.node:
            return None
        is_older = self.policy.is_older(source)
        if not packet.signature:
            if self._must_sign(source) and not (is_older and _is_reack2(packet)):
                raise ReceiptForged("It is not signed.", source=str(source))
            return None
        signer_key_id, signature = read_signature(packet.signature)
        try:
            key = self.keys.signer(str(source), signer_key_id)
        except SignerUnknown as error:
            if self.policy.believes(source):
                return None
            self._raise_awaited(str(source), error)
            raise
        self._waiting.pop(str(source), None)
        if not _is_receipts(packet):
            verify(key, signature, _message(packet, bytes(packet.body) or encode_records(packet.records)))
            return PacketProof(packet.signature, b"", binds_place=not is_older)
        leaves, message = _tree(packet, is_older=False)
        try:
            verify(key, signature, message)
        except SignatureWrong:
            if not is_older:
                raise
            leaves, message = _tree(packet, is_older=True)
            verify(key, signature, message)
            return PacketProof(packet.signature, b"".join(leaves), binds_place=False)
        return PacketProof(packet.signature, b"".join(leaves))

    # --- certificates
    def introduction(self) -> tuple[str, ...]:
        return self.keys.introduction()

    def learn(self, node: str, certificates: Sequence[str]) -> bool:
        before = self.keys.known(node)
        try:
            changed = self.keys.learn(node, certificates)
        except SemqError:
            return False
        if self.keys.known(node) != before:
            self._forget()
        return changed

    def news(self) -> list[CertificateNews]:
        return self.keys.news()

    def check_all(self) -> None:
        self.keys.check_all()
        self._forget()

    def _forget(self) -> None:
        self._opened.forget()
        self._verified.clear()

    def known(self, node: str) -> tuple[str, ...] | None:
        return self.keys.known(node) if self.keys.knows(node) else None

    def successors(self, node: str, certificates: Sequence[str]) -> tuple[str, ...]:
        return self.keys.successors(node, certificates)

    def session_of(self, envelope: Envelope) -> bytes:
        """Return the id of the session key of a sealed message. Raises SealMalformed."""
        return read_token(envelope.session_key).session_id


def _is_receipts(packet: Packet) -> bool:
    """Whether a packet holds Ack2, each provable alone."""
    return packet.function is Function.RECEIPTS and packet.primitive is Primitive.INDICATION


def _is_reack2(packet: Packet) -> bool:
    return packet.function is Function.RECEIPTS and packet.primitive is Primitive.RESPONSE


def _is_testimony(packet: Packet) -> bool:
    """Whether a packet can end a message at the sender, or settle positions at the receiver."""
    match packet.function, packet.primitive:
        case Function.RECEIPTS, _:
            return bool(packet.records)
        case Function.INQUIRIES, Primitive.CONFIRMATION:
            return True
        case Function.INQUIRIES, Primitive.REQUEST:
            return any(record.role is InquiryRole.R for record in packet.records)
    return False


def _tree(packet: Packet, *, is_older: bool) -> tuple[list[bytes], bytes]:
    """Return the leaves of a packet of receipts, and the signed content. Older leaves bind no position."""
    receiver, sender = str(packet.source.node), str(packet.target.node)
    leaves = [leaf(statement_of(receiver, "" if is_older else sender, record)) for record in packet.records]
    return leaves, tree_message(receiver, sender, len(leaves), root(leaves))


def statement_of(receiver: str, sender: str, record: Receipt) -> Statement:
    """Return the statement of a receipt; with an empty ``sender``, in the form of version 1."""
    status = record.status.value if record.status is not None else ""
    reason = "\n".join(record.reason or ())
    return Statement(receiver, record.ident, status, record.digest, record.at, reason, sender, record.sid)


def _message(packet: Packet, body: bytes) -> bytes:
    kind = f"{packet.function.value}.{packet.primitive.value}"
    return packet_message(str(packet.source.node), str(packet.target.node), kind, body)
