"""Documents in pieces (PROTOCOL.md section 24): the names of pieces, and the manifest that joins them.

A piece is a message to the user ``_pieces`` of the receiver's node; ``@Pieces`` names its document and number. The
manifest is the message to the receiver itself.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, NamedTuple

import msgspec

from semq.umx_t.errors import BadManifest

PIECES_USER = "_pieces"  # no application can use this user of a node
PIECE_BYTES = 256 * 1024  # size of the pieces that a node sends, unless ``max_document_bytes`` is smaller
PIECE_BYTES_MAX = 16 << 20  # largest ``piece_bytes`` that a manifest may state
PIECES_MAX = 1 << 24  # pieces of one document
NOTICE_NUMBER = -1  # a notice to the receiver is stored as a piece with this number until it is sent
MANIFEST_MAX = 4096  # bytes
# Release time of a manifest whose pieces are under way, milliseconds since 1970: the year 9000, which no clock reaches.
AFTER_PIECES_MS = 221_845_392_000_000

Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class PieceName(NamedTuple):
    """A piece: its document, and its number from 0."""

    document: str
    number: int

    def __str__(self) -> str:
        return f"{self.document}/{self.number}"


def parse_piece_name(text: str) -> PieceName:
    """Read the attribute @Pieces of a piece. Raises BadManifest."""
    document, _, number = text.rpartition("/")
    if not document or not number.isdecimal() or not number.isascii() or int(number) >= PIECES_MAX:
        raise BadManifest("The name of a piece cannot be read.", name=text[:80])
    return PieceName(document, int(number))


class GivenUpNotice(msgspec.Struct, frozen=True):
    """A notice to the receiver that the sender has given up a document in pieces."""

    document: str  #: name of the document
    target: str  #: address of the document; the notice itself goes to ``PIECES_USER`` of that node
    domain: str  #: ``domain``, ``type`` and ``subtype`` are parts of the document's AppKey
    type: str
    subtype: str


def document_detail(pieces: str) -> str:
    """Return the detail of a ledger line, for the reconciliation. ``pieces``: @Pieces of a piece or a manifest."""
    return f"piece {pieces}" if "/" in pieces else f"manifest of {pieces}"


class PiecesManifest(msgspec.Struct, frozen=True):
    """The payload of the manifest of a document in pieces."""

    size: Annotated[int, msgspec.Meta(ge=1)]  #: bytes of the document
    piece_bytes: Annotated[int, msgspec.Meta(ge=1, le=PIECE_BYTES_MAX)]  #: size of each piece except the last
    pieces: Hash  #: SHA-256 of the concatenated SHA-256 digests of all pieces
    digest: Hash  #: SHA-256 of the document

    @property
    def count(self) -> int:
        """The number of pieces."""
        return -(-self.size // self.piece_bytes)

    def size_of(self, number: int) -> int:
        """Return the size of one piece, in bytes."""
        return min(self.piece_bytes, self.size - number * self.piece_bytes)

    def encode(self) -> bytes:
        """Return the payload of the manifest's message."""
        return msgspec.json.encode(self)


def read_manifest(payload: bytes) -> PiecesManifest:
    """Read the payload of a manifest. Raises BadManifest."""
    try:
        manifest = msgspec.json.decode(payload, type=PiecesManifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadManifest(fault=str(error)[:200]) from error
    if manifest.count > PIECES_MAX:
        raise BadManifest("The manifest names too many pieces.", count=manifest.count)
    return manifest


def digest_of(digests: Iterable[bytes]) -> str:
    """Return the SHA-256 of the pieces' digests, in hexadecimal: the field ``pieces`` of a manifest."""
    return sha256(b"".join(digests)).hexdigest()
