"""Proof of a document's sender that does not need the session key: @Signature of a document.

    2.<key id>.<signature>.<size of the body>.<index of the leaf>.<number of leaves>[.<hash>…]

Documents sent together to one institution are the leaves of a hash tree (``receipts``). Its root, the number of leaves
and both institutions are signed once; each document carries its path to the root. A leaf binds the facts that the
engine chooses, and the size of the body. A seal proves the sender only to a node that can open it; a signature proves
the sender to every node.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from semq.seal.canonical import canonical
from semq.seal.errors import ReceiptForged
from semq.seal.keys import PrivateKey, key_id, sign
from semq.seal.receipts import HASH_LENGTH, LEAF, path, root, root_of_path
from semq.seal.token import bytes_of, text_of

VERSION = "2"
GROUP_MAX = 32  # documents that this version signs together; each carries up to five hashes
COUNT_MAX = 1 << 16  # largest number of documents under one signature that a node accepts


class Origin(NamedTuple):
    """The parts of @Signature."""

    key_id: str
    signature: bytes
    size: int  #: bytes of the body as its sender sent it
    place: int  #: index of the leaf, from 0
    document_count: int  #: number of documents under the signature
    path: tuple[bytes, ...]  #: hashes of the neighbours from the leaf to the root; an empty hash means no neighbour

    def message(self, source: str, target: str, facts: bytes) -> bytes:
        """Return the data that the sender signed if the document has these facts."""
        root_ = root_of_path(_leaf(facts, self.size), self.place, self.path)
        return _message(source, target, self.document_count, root_)


def write_origins(key: PrivateKey, source: str, target: str, documents: Sequence[tuple[bytes, int]]) -> list[str]:
    """Return @Signature of each document; ``documents``: the bound facts, and the size of the body in bytes."""
    signatures = []
    for start in range(0, len(documents), GROUP_MAX):
        signatures += _sign_group(key, source, target, documents[start : start + GROUP_MAX])
    return signatures


def _sign_group(key: PrivateKey, source: str, target: str, documents: Sequence[tuple[bytes, int]]) -> list[str]:
    leaves = [_leaf(facts, size) for facts, size in documents]
    count = len(leaves)
    beginning = VERSION, key_id(key.public_key()), text_of(sign(key, _message(source, target, count, root(leaves))))
    return [
        ".".join((*beginning, str(size), str(place), str(count), *map(text_of, path(leaves, place))))
        for place, (_, size) in enumerate(documents)
    ]


def read_origin(text: str) -> Origin:
    """Read the parts of @Signature. Raises ReceiptForged."""
    version, *parts = text.split(".")
    try:
        signer_key_id, signature, size, place, count, *neighbours = parts
        hashes = tuple(map(bytes_of, neighbours))
        origin = Origin(signer_key_id, bytes_of(signature), int(size), int(place), int(count), hashes)
    except ValueError as error:
        raise ReceiptForged("The signature of the document cannot be read.") from error
    are_hashes = all(len(hash_) in (0, HASH_LENGTH) for hash_ in hashes)
    is_placed = 0 <= origin.place < origin.document_count <= COUNT_MAX
    if version != VERSION or not are_hashes or not is_placed or origin.size < 0:
        raise ReceiptForged("The signature of the document has an unknown form.", form=version[:20])
    return origin


def _leaf(facts: bytes, size: int) -> bytes:
    return sha256(LEAF + canonical("semq document origin 2", facts, size)).digest()


def _message(source: str, target: str, count: int, root_: bytes) -> bytes:
    return canonical("semq document origins 2", source, target, count, root_)
