"""The pieces of a document in the order of its manifest: a missing, exchanged or altered piece is refused."""

from hashlib import sha256

import pytest

from semq.engine.errors import PiecesMissing
from semq.service.large_documents import ordered
from semq.store.views.pieces import ArrivedPiece
from semq.umx_t.pieces import PiecesManifest, digest_of

DOCUMENT = "1.10008.1.1.ab.7"
PARTS = [b"aaaa", b"bbbb", b"cc"]
MANIFEST = PiecesManifest(10, 4, digest_of(sha256(part).digest() for part in PARTS), "0" * 64)


def piece(bref: int, number: int, part: bytes) -> ArrivedPiece:
    return ArrivedPiece(bref, number, len(part), sha256(part).digest())


ALL = [piece(10 + number, number, part) for number, part in enumerate(PARTS)]


def test_pieces_are_ordered_and_repetitions_are_left_out() -> None:
    repeated = piece(20, 1, PARTS[1])
    assert ordered([ALL[2], ALL[0], ALL[1], repeated], DOCUMENT, MANIFEST) == [10, 11, 12]


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
        ordered(pieces, DOCUMENT, MANIFEST)
