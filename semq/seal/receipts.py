"""Signed receipts: a receiver's statements about messages, with one signature for all statements of a packet.

The statements of a packet are the leaves of a hash tree (RFC 9162, section 2.1.1). Its root, the number of leaves and
both institutions are signed. Each receipt can be proved alone, by its path to the root, without revealing the others.

A packet of records that are not receipts is signed as a whole, so its records cannot be proved one by one.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from semq.seal.canonical import canonical
from semq.seal.errors import ReceiptForged
from semq.seal.keys import PrivateKey, key_id, sign
from semq.seal.token import bytes_of, text_of

LEAF, NODE = b"\x00", b"\x01"
HASH_LENGTH = 32


class Statement(NamedTuple):
    """A receiver's statement about one message."""

    receiver: str  #: address of the receiver's node
    lk0: str
    status: str  #: RECV, REJ, VOID, SETTLED, or NOT (PROTOCOL.md, S16)
    digest: str  #: as sent with the message, hexadecimal
    at: int  #: milliseconds since 1970 UTC, by the receiver's clock
    reason: str = ""
    sender: str = ""  #: address of the node that receives the receipt; empty in version 1 (``leaf``)
    sid: int = -1  #: position of the message in its stream, -1 for classes 1 and 2; not signed in version 1


def leaf(statement: Statement) -> bytes:
    """Return the leaf of a statement: version 2, or version 1 if the statement names no sender."""
    *facts, sender, sid = statement
    data = canonical("semq receipt 2", sender, sid, *facts) if sender else canonical("semq receipt 1", *facts)
    return sha256(LEAF + data).digest()


def _level(nodes: Sequence[bytes]) -> list[bytes]:
    pairs = [sha256(NODE + nodes[n] + nodes[n + 1]).digest() for n in range(0, len(nodes) - 1, 2)]
    return [*pairs, nodes[-1]] if len(nodes) % 2 else pairs


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over at least one leaf; a node without a neighbour moves up unchanged."""
    nodes = list(leaves)
    while len(nodes) > 1:
        nodes = _level(nodes)
    return nodes[0]


def path(leaves: Sequence[bytes], place: int) -> list[bytes]:
    """Return the neighbours on the path from a leaf to the root; an empty entry means no neighbour."""
    nodes, neighbours = list(leaves), []
    while len(nodes) > 1:
        neighbour = place ^ 1
        neighbours.append(nodes[neighbour] if neighbour < len(nodes) else b"")
        nodes, place = _level(nodes), place // 2
    return neighbours


def root_of_path(leaf_: bytes, place: int, neighbours: Sequence[bytes]) -> bytes:
    """Return the root that results from a leaf and its path."""
    node = leaf_
    for neighbour in neighbours:
        if neighbour:
            node = sha256(NODE + (neighbour + node if place % 2 else node + neighbour)).digest()
        place //= 2
    return node


def tree_message(receiver: str, sender: str, count: int, root_: bytes) -> bytes:
    """Return the data to be signed for a packet of receipts."""
    return canonical("semq receipts 1", receiver, sender, count, root_)


def packet_message(source: str, target: str, kind: str, body: bytes) -> bytes:
    """Return the data to be signed for a packet of records that are not receipts. ``kind``: function and primitive."""
    return canonical("semq packet 1", source, target, kind, sha256(body).digest())


def write_signature(key: PrivateKey, message: bytes) -> str:
    """Return a signature as text: key id and bytes."""
    return f"{key_id(key.public_key())}.{text_of(sign(key, message))}"


def read_signature(text: str) -> tuple[str, bytes]:
    """Read key id and bytes of a signature. Raises ReceiptForged."""
    signer_key_id, dot, signature = text.partition(".")
    try:
        if not dot:
            raise ValueError(text[:40])
        return signer_key_id, bytes_of(signature)
    except ValueError as error:
        raise ReceiptForged("The signature cannot be read.") from error
