"""The file that proves a delivery to anyone, offline: ``semq msg prove`` writes it, ``semq verify`` reads it.

This module checks the statement and its signature. The caller must also verify the certificate against the authorities
(``semq.pki``).
"""

from hashlib import sha256

import msgspec

from semq.foreign_text import shortened
from semq.seal.errors import ProofWrong, SignatureWrong
from semq.seal.keys import PublicKey, key_id, verify
from semq.seal.receipts import HASH_LENGTH, Statement, leaf, root_of_path, tree_message
from semq.seal.session import salted_digest

FORMAT = "semq-proof-1"
PATH_MAX = 64  # hashes
DELIVERED_STATUS = "RECV"  # the receiver has recorded the document; no other status proves a delivery
AT_MAX = 253_402_300_799_999  # the last millisecond of the year 9999


class Proof(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The content of the file; bytes are base64."""

    format: str = FORMAT
    receiver: str
    sender: str
    lk0: str
    sid: int | None = None  #: position in the sender's stream; None from a receiver of an older version
    status: str
    digest: str  #: as sent with the message, hexadecimal
    at: int  #: time of the receiver's statement, milliseconds since 1970 UTC
    reason: str = ""
    salt: bytes | None = None  #: salt of a sealed document, to calculate its digest
    place: int  #: index of the statement in the packet, from 0
    count: int  #: number of statements in the packet
    path: list[bytes]  #: hashes of the neighbours from the statement to the root; an empty hash means no neighbour
    signature: bytes
    certificates: list[str]  #: PEM: the receiver's certificate, then those between it and the authority

    @property
    def statement(self) -> Statement:
        """The receiver's statement."""
        position = () if self.sid is None else (self.sender, self.sid)
        return Statement(self.receiver, self.lk0, self.status, self.digest, self.at, self.reason, *position)


def write_proof(proof: Proof) -> bytes:
    """Return the content of the file as bytes."""
    return msgspec.json.format(msgspec.json.encode(proof), indent=2) + b"\n"


def read_proof(data: bytes) -> Proof:
    """Read the content of the file. Raises ProofWrong."""
    try:
        proof = msgspec.json.decode(data, type=Proof)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProofWrong("The file is not a proof of delivery.", fault=shortened(str(error), 200)) from error
    if proof.format != FORMAT or not proof.certificates:
        raise ProofWrong("The file is not a proof of delivery of this version.", format=proof.format[:40])
    return proof


def check_proof(proof: Proof, key: PublicKey) -> None:
    """Check that the statement is about a recorded document, and that the owner of ``key`` signed it.

    Raises ProofWrong.
    """
    if len(proof.path) > PATH_MAX or any(len(hash_) not in (0, HASH_LENGTH) for hash_ in proof.path):
        raise ProofWrong("The path in the file is not valid.")
    if proof.status != DELIVERED_STATUS:
        raise ProofWrong("The receiver does not state that it has recorded the document.", status=proof.status[:40])
    if not 0 <= proof.at <= AT_MAX:
        raise ProofWrong("The time in the file is not valid.", at=proof.at)
    if not 0 <= proof.place < proof.count:
        raise ProofWrong("The place in the file is not valid.", place=proof.place, count=proof.count)
    root = root_of_path(leaf(proof.statement), proof.place, proof.path)
    try:
        verify(key, proof.signature, tree_message(proof.receiver, proof.sender, proof.count, root))
    except SignatureWrong as error:
        raise ProofWrong("The signature does not match the statement.", key_id=key_id(key)) from error


def check_document(proof: Proof, document: bytes) -> None:
    """Check that the statement is about this document. Raises ProofWrong."""
    digest = sha256(document).digest()
    if proof.salt is not None:
        digest = salted_digest(proof.salt, digest)
    if digest.hex() != proof.digest:
        raise ProofWrong("The proof is about another document.", lk0=proof.lk0)
