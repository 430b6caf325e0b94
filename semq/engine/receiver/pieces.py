"""Bounds of documents in pieces at the receiver's node (PROTOCOL.md section 24).

The bytes of stored pieces are bounded for each source, because pieces wait for a manifest that may never come. An empty
piece is the notice that its sender has given up the document (``local_node.pieces.remains``). A manifest is refused if
its pieces are not here, so that its sender does not take the document for delivered.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from semq.engine.errors import DocumentTooLarge, PiecesMissing, PiecesQuotaReached
from semq.engine.settings import EngineSettings
from semq.store.rows import ArrivedPiece, Pending, StoredPiece
from semq.umx_t.envelope import Envelope
from semq.umx_t.errors import BadManifest
from semq.umx_t.pieces import (
    MANIFEST_MAX,
    PIECES_USER,
    PiecesManifest,
    digest_of,
    parse_piece_name,
    read_manifest,
)
from semq.umx_t.status import Arrival


class PiecesHere(NamedTuple):
    """The pieces of one document at this node; each number counts once."""

    piece_count: int
    size: int  #: bytes
    digest: str  #: as ``PiecesManifest.pieces``
    brefs: tuple[int, ...]  #: their rows in tb_0030


NO_PIECES = PiecesHere(0, 0, digest_of(()), ())
PiecesFound = Callable[[PiecesHere], None]
# Search for the pieces of a document: its source node, its name, and the function that is called with the result. It is
# not called if the store is away, the engine has ended or too many searches wait: then the manifest arrives again.
FindPieces = Callable[[str, str, PiecesFound], None]
NOT_DESCRIBED = "The pieces are not those that the manifest describes."
COUNTED_MIN = 64 * 1024  # a smaller piece counts as this many bytes, which bounds the number of tiny pieces


def counted_size(size: int) -> int:
    """Return the bytes that a piece of ``size`` bytes counts in the quota of its source."""
    return max(size, COUNTED_MIN)


class PieceStock:
    """The pieces in tb_0030: their bytes by source, and which of them must stay or are about to be removed.

    Pieces are searched before their manifest is recorded; old pieces are removed after a search for their manifest.
    Either search may miss a decision that follows the other one, so both decisions mark the rows in memory: ``claim``
    and ``give_up``.
    """

    def __init__(self, stored: Iterable[StoredPiece]) -> None:
        self._sizes: dict[int, int] = {}  #: counted bytes by row, so that a deletion decided twice counts once
        self._ended: set[int] = set()  #: rows that are not counted any more, and not deleted yet
        self._bytes: defaultdict[str, int] = defaultdict(int)
        self._claimed: set[int] = set()  #: rows whose manifest a search may have missed
        self._given_up: set[int] = set()  #: rows about to be removed without a manifest
        self.notices: set[int] = set()  #: rows of notices
        for piece in stored:
            self._add(piece)

    @property
    def sources(self) -> list[str]:
        """The institutions whose pieces or notices are stored."""
        return list(self._bytes)

    def of(self, source: str) -> int:
        return self._bytes.get(source, 0)

    def size_of(self, bref: int) -> int:
        """Return the bytes counted for a row, at least ``COUNTED_MIN``; 0 if it is no stored piece."""
        return self._sizes.get(bref, 0)

    def claim(self, brefs: Sequence[int]) -> bool:
        """Keep the pieces of a manifest that is about to be recorded; return False if some are gone or given up."""
        if any(bref not in self._sizes or bref in self._ended or bref in self._given_up for bref in brefs):
            return False
        self._claimed.update(brefs)
        return True

    def forget_claims(self) -> None:
        """Forget the claims before a search that begins after the commits of all manifests that have made them."""
        self._claimed.clear()

    def give_up(self, brefs: Iterable[int]) -> list[int]:
        """Return the pieces that may be removed without a manifest: those that no manifest has claimed."""
        unclaimed = [bref for bref in brefs if bref not in self._claimed]
        self._given_up.update(unclaimed)
        return unclaimed

    def add(self, row: Pending) -> None:
        """Count a committed row if it is a piece."""
        if is_stored_piece(row):
            self._add(StoredPiece(row.bref, row.source, row.size))

    def end(self, row: Pending) -> None:
        """Stop counting a row that has ended and is deleted later."""
        self.notices.discard(row.bref)
        if row.bref in self._sizes and row.bref not in self._ended:
            self._ended.add(row.bref)
            self._bytes[row.source] -= self._sizes[row.bref]
            if not self._bytes[row.source]:
                del self._bytes[row.source]

    def remove(self, row: Pending) -> None:
        self.end(row)
        self._ended.discard(row.bref)
        self._given_up.discard(row.bref)
        self._sizes.pop(row.bref, None)

    def _add(self, piece: StoredPiece) -> None:
        counted = self._sizes[piece.bref] = counted_size(piece.size)
        self._bytes[piece.source] += counted
        if not piece.size:
            self.notices.add(piece.bref)


def is_stored_piece(row: Pending) -> bool:
    """Whether a row is a piece whose bytes are stored."""
    return row.target.user == PIECES_USER and row.status is Arrival.RECV


def is_manifest(envelope: Envelope) -> bool:
    """Whether a message is the manifest of a document in pieces."""
    return bool(envelope.attributes.pieces) and envelope.target.user != PIECES_USER


def check_piece(envelope: Envelope, payload: bytes, stored: int, settings: EngineSettings) -> None:
    """Check a piece against the bounds. ``stored``: bytes counted for its source. Raises SemqError."""
    if not payload:
        return  # a notice must not be refused for the quota that it frees
    number, counted = parse_piece_name(envelope.attributes.pieces).number, counted_size(len(payload))
    if stored + counted > settings.quota_piece_bytes_per_partner:
        raise PiecesQuotaReached(stored=stored, quota=settings.quota_piece_bytes_per_partner)
    _check_size(number * len(payload) + len(payload), settings)


def check_manifest(
    envelope: Envelope, payload: bytes, here: PiecesHere, stock: PieceStock, settings: EngineSettings
) -> None:
    """Check a manifest against the bounds and against the pieces at this node, and claim these. Raises SemqError."""
    if len(payload) > MANIFEST_MAX:
        raise BadManifest("The manifest has too many bytes.", size=len(payload), allowed=MANIFEST_MAX)
    manifest, document = read_manifest(payload), envelope.attributes.pieces
    _check_size(manifest.size, settings)
    if here.piece_count < manifest.count:
        raise PiecesMissing(document=document, pieces=manifest.count, found=here.piece_count)
    if (here.piece_count, here.size, here.digest) != (manifest.count, manifest.size, manifest.pieces):
        raise PiecesMissing(NOT_DESCRIBED, document=document)
    if not stock.claim(here.brefs):
        raise PiecesMissing(document=document)


def _check_size(size: int, settings: EngineSettings) -> None:
    if size > settings.max_large_document_bytes:
        raise DocumentTooLarge(size=size, allowed=settings.max_large_document_bytes).with_remedy(
            "Split or compress it, or ask the receiver to raise protocol.max_large_document_bytes."
        )


def pieces_here(arrived: Iterable[ArrivedPiece]) -> PiecesHere:
    """Sum up the pieces of a document; of several with the same number, only the first. Takes long for many pieces."""
    by_number: dict[int, ArrivedPiece] = {}
    for piece in arrived:
        by_number.setdefault(piece.number, piece)
    pieces = [by_number[number] for number in sorted(by_number)]
    size, digest = sum(piece.size for piece in pieces), digest_of(piece.digest for piece in pieces)
    return PiecesHere(len(pieces), size, digest, tuple(piece.bref for piece in pieces))


def pieces_in_order(arrived: Sequence[ArrivedPiece], document: str, manifest: PiecesManifest) -> list[int]:
    """Return the row numbers of a document's pieces in order.

    Raises PiecesMissing unless ``arrived`` has all the pieces that the manifest states.
    """
    by_number: dict[int, ArrivedPiece] = {}
    for piece in arrived:
        if piece.number < manifest.count and piece.size == manifest.size_of(piece.number):
            by_number.setdefault(piece.number, piece)
    if len(by_number) < manifest.count:
        raise PiecesMissing(document=document, pieces=manifest.count, found=len(by_number))
    pieces = [by_number[number] for number in range(manifest.count)]
    if digest_of(piece.digest for piece in pieces) != manifest.pieces:
        raise PiecesMissing(NOT_DESCRIBED, document=document)
    return [piece.bref for piece in pieces]
