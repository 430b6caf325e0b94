"""A peer written from section 27 of the protocol alone: a node opens its seals and accepts its signatures.

The tests do not use ``semq.seal``.
"""

import hmac
import re
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from msgspec.structs import replace

from semq.amqp.wire import encode_fields
from semq.clock import SystemClock, draw_secret
from semq.engine.ports import CertificateNews
from semq.engine.secrecy.sealing import Policy, Sealing
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Data, Envelope, Function, Packet, Primitive
from semq.umx_t.locator import parse_lk0
from semq.umx_t.records import AckFlag, Answer, Inquiry, InquiryRole, Receipt, encode_records
from tests.house.sources import ROOT, committed

A, B = "1.10008", "1.56001"
LK0 = f"{A}.1.1.ff.99"
PAYLOAD = b"<Order>S0001</Order>"
SECRET = bytes(range(32))
A_KEY, B_KEY = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
SECTION = (ROOT / "docs" / "protocol" / "forms.md").read_text("utf-8")


def canonical(label: str, *facts: Any) -> bytes:
    return msgspec.msgpack.encode([label, *facts])


def b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def key_id(key: ec.EllipticCurvePrivateKey) -> str:
    return sha256(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()[:32]


def signed(message: bytes) -> bytes:
    return A_KEY.sign(message, ec.ECDSA(SHA256()))


def derived(purpose: bytes, length: int) -> bytes:
    return HKDFExpand(SHA256(), length, b"semq 1 " + purpose).derive(SECRET)


def leaf(data: bytes) -> bytes:
    return sha256(b"\x00" + data).digest()


def node(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


# Facts of the document, numbered as in section 27; fact 5 is the digest
FACTS_1_TO_4 = (A, f"{B}/buyer", "erp", 1_700_000_000_000)
FACTS_6_TO_16 = (
    3, True, True, False, ["trade", "order", "", "S0001"], "customer-7", "text/xml", "", 4, 0,
    ["t", {"colour": ["s", "red"]}],
)  # fmt: skip
HEADERS = {"colour": "red"}
PLACE = f"{LK0} 77 -"


def document(digest: bytes, **attributes: Any) -> Envelope:
    """Return an envelope with these facts."""
    asked = Attributes(
        app_key=AppKey("trade", "order", "", "S0001"), order_key="customer-7", content_type="text/xml", priority=4,
        user_headers=encode_fields(HEADERS), **attributes,
    )  # fmt: skip
    return Envelope(
        source=Address(1, "10008"), target=Address(1, "56001", "buyer"), lk0=parse_lk0(LK0), attributes=asked,
        sender="erp", sid=77, att=1, digest=digest, submitted_at=1_700_000_000_000,
    )  # fmt: skip


@dataclass
class Keys:
    """The keys of B, which has the certificate of A."""

    signing: ec.EllipticCurvePrivateKey = field(default_factory=lambda: B_KEY)

    def own(self, name: str) -> ec.EllipticCurvePrivateKey | None:
        return B_KEY if name == key_id(B_KEY) else None

    def receiver(self, name: str) -> ec.EllipticCurvePublicKey:
        return A_KEY.public_key()

    def signer(self, name: str, signer: str) -> ec.EllipticCurvePublicKey:
        assert (name, signer) == (A, key_id(A_KEY))
        return A_KEY.public_key()

    def knows(self, name: str) -> bool:
        return True

    def introduction(self) -> tuple[str, ...]:
        return ()

    def learn(self, name: str, certificates: Sequence[str]) -> bool:
        return False

    def known(self, name: str) -> tuple[str, ...]:
        return ()

    def successors(self, name: str, certificates: Sequence[str]) -> tuple[str, ...]:
        return ()

    def check_all(self) -> None:
        pass

    def news(self) -> list[CertificateNews]:
        return []


@pytest.fixture
def receiver() -> Sealing:
    return Sealing(Address(1, "56001"), Keys(), SystemClock(), draw_secret, Policy())


def test_a_node_opens_a_seal_made_as_section_27_says(receiver: Sealing) -> None:
    session_id = derived(b"session id", 16)
    alg, receiver_key = "HPKE-P256+A256GCM", key_id(B_KEY)
    context = canonical("semq session key 1", alg, receiver_key, key_id(A_KEY), A, B, "", session_id)
    wrapped = Suite(KEM.P256, KDF.HKDF_SHA256, AEAD.AES_256_GCM).encrypt(SECRET, B_KEY.public_key(), info=context)
    signature = signed(canonical("semq session key signature 1", context, wrapped))
    session_key = f"1.{b64(session_id)}.{b64(wrapped)}.{key_id(A_KEY)}.{b64(signature)}"

    salt = hmac.digest(derived(b"digests", 32), LK0.encode(), "sha256")
    digest = sha256(b"semq digest 1" + salt + sha256(PAYLOAD).digest()).digest()
    bound = canonical("semq document 1", session_id, PLACE, *FACTS_1_TO_4, digest, len(PAYLOAD), *FACTS_6_TO_16)
    nonce = (0).to_bytes(4, "big") + b"8 random"
    body = nonce + AESGCM(derived(b"content", 32)).encrypt(nonce, PAYLOAD, bound)

    sealed = replace(document(digest, encrypt=True), session_key=session_key, alg=alg, key_id=receiver_key)
    opened = receiver.open(sealed, body)
    assert (bytes(opened.payload), opened.is_proved) == (PAYLOAD, True)


def test_a_node_accepts_a_document_signed_as_section_27_says(receiver: Sealing) -> None:
    digest = sha256(PAYLOAD).digest()
    facts = canonical(
        "semq document 2", PLACE, *FACTS_1_TO_4, digest, *FACTS_6_TO_16, False, "", "", "", ""
    )  # @Encrypt, @SessionKey, @Alg, @KeyId, @Origin
    own, beside = leaf(canonical("semq document origin 2", facts, len(PAYLOAD))), leaf(b"another document")
    signature = signed(canonical("semq document origins 2", A, B, 2, node(own, beside)))
    origin = f"2.{key_id(A_KEY)}.{b64(signature)}.{len(PAYLOAD)}.0.2.{b64(beside)}"
    assert receiver.check_origin(Data(replace(document(digest), signature=origin), PAYLOAD))


def test_a_node_accepts_a_marker_signed_as_section_27_says(receiver: Sealing) -> None:
    app_key = ["trade", "order", "", "S0001"]
    signature = signed(canonical("semq marker 1", A, f"{B}/buyer", PLACE, "customer-7", app_key))
    marker = replace(document(b""), void=True, signature=f"{key_id(A_KEY)}.{b64(signature)}")
    assert receiver.check_marker(marker)


def test_a_node_accepts_packets_signed_as_section_27_says(receiver: Sealing) -> None:
    source, target, ident = Address(1, "10008"), Address(1, "56001"), f"{B}.1.1.aa.7"
    receipts = [
        Receipt(ack_flag=AckFlag.END_TO_END, ident=ident, status=Answer.REJ, reason=("SEMQ-1203", "too large"),
                digest="ab" * 32, at=5, sid=3),
        Receipt(ack_flag=AckFlag.END_TO_END, ident=ident, status=Answer.RECV, digest="ab" * 32, at=6),
    ]  # fmt: skip
    leaves = [
        leaf(canonical("semq receipt 2", B, 3, A, ident, "REJ", "ab" * 32, 5, "SEMQ-1203\ntoo large")),
        leaf(canonical("semq receipt 2", B, -1, A, ident, "RECV", "ab" * 32, 6, "")),
    ]
    signature = signed(canonical("semq receipts 1", A, B, 2, node(*leaves)))
    packet = Packet(source, target, Function.RECEIPTS, Primitive.INDICATION, receipts)
    proof = receiver.verify_packet(replace(packet, signature=f"{key_id(A_KEY)}.{b64(signature)}"))
    assert proof is not None
    assert proof.leaves == b"".join(leaves)

    asked = [Inquiry(role=InquiryRole.R, ident=ident, status=Answer.RECV)]
    body = encode_records(asked)
    signature = signed(canonical("semq packet 1", A, B, "809.request", sha256(body).digest()))
    packet = Packet(source, target, Function.INQUIRIES, Primitive.REQUEST, asked, body=body)
    assert receiver.verify_packet(replace(packet, signature=f"{key_id(A_KEY)}.{b64(signature)}")) is not None


# Labels of values that never leave their node, and of receipts of older nodes
UNDESCRIBED = {"semq ledger 1", "semq receipt 1"}


def test_each_label_is_described() -> None:
    labels = set()
    for file in committed():
        if file.suffix == ".py" and file.relative_to(ROOT).parts[0] in ("semq", "local_node", "platform_node"):
            labels |= set(re.findall(r'(?:canonical\(|LABEL = )\s*"(semq [a-z ]+ \d)"', file.read_text("utf-8")))
    assert "semq story 1" in labels
    assert {label for label in labels - UNDESCRIBED if f'"{label}"' not in SECTION} == set()
