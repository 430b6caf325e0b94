"""The file that proves a delivery: valid as written, invalid after any change."""

from hashlib import sha256

import msgspec
import pytest

from semq.seal.errors import ProofWrong
from semq.seal.keys import sign
from semq.seal.proof import Proof, check_document, check_proof, read_proof, write_proof
from semq.seal.receipts import Statement, leaf, path, root, tree_message
from semq.seal.session import OpeningKey
from tests.seal.parties import KINDS, SECRET, A, B, SealingPair

DOCUMENT = b"<Order/>"


def proof_of(kind: str = "P256", salt: bytes | None = None) -> Proof:
    digest = sha256(DOCUMENT).digest()
    if salt is not None:
        digest = OpeningKey(SECRET).digest("lk0-2", digest)
    statements = [Statement(B, f"lk0-{n}", "RECV", digest.hex(), 5) for n in range(5)]
    leaves = [leaf(statement) for statement in statements]
    return Proof(
        receiver=B, sender=A, lk0="lk0-2", status="RECV", digest=digest.hex(), at=5, salt=salt, place=2, count=5,
        path=path(leaves, 2), signature=sign(SealingPair(kind).b, tree_message(B, A, 5, root(leaves))),
        certificates=["pem"],
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_proof_is_valid_after_it_was_written_and_read(kind: str) -> None:
    proof = read_proof(write_proof(proof_of(kind)))
    check_proof(proof, SealingPair(kind).b.public_key())
    check_document(proof, DOCUMENT)
    with pytest.raises(ProofWrong):
        check_proof(proof, SealingPair(kind).a.public_key())


def test_a_sealed_document_is_proved_with_its_salt() -> None:
    salt = OpeningKey(SECRET).salt("lk0-2")
    proof = proof_of(salt=salt)
    check_proof(proof, SealingPair().b.public_key())
    check_document(proof, DOCUMENT)
    for altered in (msgspec.structs.replace(proof, salt=None), msgspec.structs.replace(proof, salt=bytes(32))):
        with pytest.raises(ProofWrong):
            check_document(altered, DOCUMENT)


@pytest.mark.parametrize(
    "change",
    [
        {"receiver": A}, {"sender": B}, {"lk0": "lk0-3"}, {"status": "REJ"}, {"digest": "00" * 32}, {"at": 6},
        {"reason": "x"}, {"place": 3}, {"place": -1}, {"place": 5}, {"count": 6}, {"path": []}, {"path": [b"short"]},
        {"path": [bytes(32)] * 65}, {"signature": b""},
    ],
)  # fmt: skip
def test_any_change_makes_a_proof_invalid(change: dict[str, object]) -> None:
    with pytest.raises(ProofWrong):
        check_proof(msgspec.structs.replace(proof_of(), **change), SealingPair().b.public_key())


def test_another_document_does_not_match() -> None:
    with pytest.raises(ProofWrong):
        check_document(proof_of(), DOCUMENT + b" ")


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"\xff", b"null", b'{"x":' + b"[" * 100_000])
def test_other_files_are_no_proofs(data: bytes) -> None:
    with pytest.raises(ProofWrong):
        read_proof(data)


@pytest.mark.parametrize("change", [{"format": "semq-proof-2"}, {"certificates": []}])
def test_another_format_and_a_proof_without_a_certificate_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ProofWrong):
        read_proof(write_proof(msgspec.structs.replace(proof_of(), **change)))


@pytest.mark.parametrize("status", ["REJ", "VOID", "SETTLED", ""])
def test_a_statement_with_another_status_proves_no_delivery(status: str) -> None:
    """The statement is genuine and signed by the receiver, but its status is not RECV."""
    proof = msgspec.structs.replace(proof_of(), status=status, place=0, count=1, path=[])
    signature = sign(SealingPair().b, tree_message(B, A, 1, leaf(proof.statement)))
    with pytest.raises(ProofWrong, match="does not state that it has recorded"):
        check_proof(msgspec.structs.replace(proof, signature=signature), SealingPair().b.public_key())


@pytest.mark.parametrize("at", [-1, 10**18, 2**62])
def test_a_malformed_time_is_refused(at: int) -> None:
    with pytest.raises(ProofWrong):
        check_proof(msgspec.structs.replace(proof_of(), at=at), SealingPair().b.public_key())
