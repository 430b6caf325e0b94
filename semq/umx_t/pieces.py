"""Documents in pieces (PROTOCOL.md section 24): the names of pieces, and the manifest that joins them.

A piece is a message to the user ``_pieces`` of the receiver's node; ``@Pieces`` names its document and number. The
manifest is the message to the receiver itself; its payload has the numbers of bytes and pieces and the digest of the
pieces' digests, which reveals a missing, exchanged or altered piece.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Annotated, NamedTuple

import msgspec

from semq.umx_t.errors import BadManifest

USER = "_pieces"  # the user of a node to whom pieces are addressed; no application can use it
PIECE_BYTES = 256 * 1024
PIECE_BYTES_MAX = 16 << 20  # largest ``piece_bytes`` that a manifest may state
PIECES_MAX = 1 << 24
NOTICE = -1  # number, instead of that of a piece, under which a notice to the receiver is stored until it is sent
MANIFEST_MAX = 4096  # bytes
AFTER_PIECES_MS = 221_845_392_000_000  # the year 9000: a document in pieces is released when its pieces have arrived

Hash = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class PieceName(NamedTuple):
    """A piece: its document, and its number from 0."""

    document: str
    number: int

    def __str__(self) -> str:
        return f"{self.document}/{self.number}"


def parse_piece_name(text: str) -> PieceName:
    """Read the attribute of a piece. Raises BadManifest."""
    document, _, number = text.rpartition("/")
    if not document or not number.isdecimal() or not number.isascii() or int(number) >= PIECES_MAX:
        raise BadManifest("The name of a piece cannot be read.", name=text[:80])
    return PieceName(document, int(number))


class GivenUp(msgspec.Struct, frozen=True):
    """A document in pieces that its sender does not send any more, as the notice to its receiver names it."""

    document: str  #: its name
    target: str
    domain: str
    type: str
    subtype: str


def document_detail(pieces: str) -> str:
    """Return the words of a ledger line for the attribute ``@Pieces`` of a piece or of a manifest.

    The reconciliation reads the name of the document from them.
    """
    return f"piece {pieces}" if "/" in pieces else f"manifest of {pieces}"


class PiecesManifest(msgspec.Struct, frozen=True):
    """The payload of the manifest of a document in pieces."""

    size: Annotated[int, msgspec.Meta(ge=1)]  #: bytes of the document
    piece_bytes: Annotated[int, msgspec.Meta(ge=1, le=PIECE_BYTES_MAX)]  #: size of each piece but the last
    pieces: Hash  #: SHA-256 of the SHA-256 of all pieces, one after the other
    digest: Hash  #: SHA-256 of the document

    @property
    def count(self) -> int:
        """The number of pieces."""
        return -(-self.size // self.piece_bytes)

    def size_of(self, number: int) -> int:
        """Return the bytes of one piece."""
        return min(self.piece_bytes, self.size - number * self.piece_bytes)

    def encode(self) -> bytes:
        """Return the payload of the message."""
        return msgspec.json.encode(self)


def read_manifest(payload: bytes) -> PiecesManifest:
    """Read the payload of a manifest. Raises BadManifest."""
    try:
        manifest = msgspec.json.decode(payload, type=PiecesManifest)
    except msgspec.MsgspecError as error:
        raise BadManifest(fault=str(error)[:200]) from error
    if manifest.count > PIECES_MAX:
        raise BadManifest("The manifest names too many pieces.", count=manifest.count)
    return manifest


def digest_of(digests: Iterable[bytes]) -> str:
    """Return the digest of the digests of all pieces."""
    return sha256(b"".join(digests)).hexdigest()
