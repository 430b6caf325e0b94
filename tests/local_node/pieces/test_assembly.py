"""The pieces of a document are put into the order of its manifest; wrong pieces are refused."""

from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest

from local_node.doors.inbox import InboxQueue
from local_node.pieces.assembly import Assembly, JoinedDelivery
from semq.engine.errors import PiecesMissing
from semq.engine.receiver.pieces import pieces_in_order
from semq.store.rows import ArrivedPiece
from semq.umx_t.pieces import PiecesManifest, digest_of

DOCUMENT = "1.10008.1.1.ab.7"
PARTS = [b"aaaa", b"bbbb", b"cc"]
MANIFEST = PiecesManifest(10, 4, digest_of(sha256(part).digest() for part in PARTS), "0" * 64)


def piece(bref: int, number: int, part: bytes) -> ArrivedPiece:
    return ArrivedPiece(bref, number, len(part), sha256(part).digest())


ALL = [piece(10 + number, number, part) for number, part in enumerate(PARTS)]


def test_pieces_are_ordered_and_repetitions_are_left_out() -> None:
    repeated = piece(20, 1, PARTS[1])
    assert pieces_in_order([ALL[2], ALL[0], ALL[1], repeated], DOCUMENT, MANIFEST) == [10, 11, 12]


@pytest.mark.parametrize(
    "pieces",
    [
        ALL[:2],
        [*ALL[:2], piece(12, 3, PARTS[2])],
        [*ALL[:2], piece(12, 2, b"c")],
        [*ALL[:2], piece(12, 2, b"CC")],
        [piece(10, 1, PARTS[0]), piece(11, 0, PARTS[1]), ALL[2]],
        [],
    ],
    ids=["one is missing", "another number", "too short", "altered", "exchanged", "none"],
)
def test_a_document_with_wrong_pieces_is_not_delivered(pieces: list[ArrivedPiece]) -> None:
    with pytest.raises(PiecesMissing):
        pieces_in_order(pieces, DOCUMENT, MANIFEST)


def test_the_pieces_of_a_document_are_forgotten_when_the_last_consumer_goes_before_its_delivery() -> None:
    given_back: list[int] = []
    engine: Any = SimpleNamespace(answers=SimpleNamespace(give_back=given_back.extend))
    turn: Any = SimpleNamespace(before_flush=lambda work: None)
    consumer: Any = SimpleNamespace(credit=0)
    assembly = Assembly(lambda: engine, lambda: engine)
    assembly._pieces[7] = [10, 11, 12]  # as after the joining
    queue = InboxQueue("", lambda: engine, turn, engine, assembly, lambda: None)
    queue.attach(consumer)
    envelope: Any = SimpleNamespace(attributes=SimpleNamespace(pieces=DOCUMENT))
    body: Any = None
    queue.give(JoinedDelivery(7, envelope, b"", redelivered=False, deliveries=1, body=body))
    queue.detach(consumer)
    assert given_back == [7]
    assert assembly.take_with_pieces([7]) == [7]
