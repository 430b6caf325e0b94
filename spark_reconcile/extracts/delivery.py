"""Delivery of extracts to the hub's storage as SEMQ documents: cut into pieces, sent, collected, joined.

``deliver`` sends an extract as a parcel (one stream of bytes) to the institution that collects for the hub. Each piece
has its own token, so a repeated ``deliver`` makes no second document. At the hub, ``Collector`` keeps pieces in a spool
until a parcel is complete. The source of the documents, not the parcel, identifies the node.
"""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from semq.app import Client, Document
from spark_reconcile.errors import BadExtract, BeingRun
from spark_reconcile.extracts.manifest import MANIFEST_FILE, Manifest, Verify, date_folder, folder_of, read_manifest
from spark_reconcile.extracts.parcel import BYTES_MAX, CONTENT_TYPE, finished_manifest, pack, parcel_bytes, receive
from spark_reconcile.storage import Place

MAGIC = b"SEMQ-PIECE-1\n"
PIECE_BYTES = 8 << 20
PIECES_MAX = 1 << 16
SPOOLED_MAX = 2 * PIECES_MAX  # pieces of one node in the spool: a parcel, and one that was given up
SPOOL = "_incoming"
DELIVERED = "_delivered.txt"  # file in the extract's folder that names the last parcel sent
JOINED = "joined.txt"  # file in a node's spool: its last parcels, and the folders of their extracts
_JOINED_MAX = 100  # lines of JOINED: more parcels than arrive between a joined parcel and its last acknowledgement
_PARCEL_ID_BYTES = 32
_HEADER_BYTES = len(MAGIC) + _PARCEL_ID_BYTES + 8


@dataclass(frozen=True, slots=True)
class Piece:
    """One document: a part of a parcel."""

    parcel: str  #: SHA-256 of the manifest, hexadecimal
    number: int  #: from 1
    count: int
    content: bytes

    def encode(self) -> bytes:
        numbers = self.number.to_bytes(4, "big") + self.count.to_bytes(4, "big")
        return MAGIC + bytes.fromhex(self.parcel) + numbers + self.content


def read_piece(body: bytes) -> Piece:
    """Read a piece, the inverse of ``Piece.encode``. Raises BadExtract for anything else."""
    parcel, numbers = body[len(MAGIC) : _HEADER_BYTES - 8], body[_HEADER_BYTES - 8 : _HEADER_BYTES]
    number, count = int.from_bytes(numbers[:4], "big"), int.from_bytes(numbers[4:], "big")
    if len(body) <= _HEADER_BYTES or not body.startswith(MAGIC) or not 1 <= number <= count <= PIECES_MAX:
        raise BadExtract("This document is not a piece of an extract.", state="UNKNOWN_SCHEMA")
    return Piece(parcel.hex(), number, count, body[_HEADER_BYTES:])


def cut(folder: Place, piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """Cut a finished extract into pieces of at most ``piece_bytes``.

    The pieces are of nearly equal size, so their bytes depend only on the extract and the number of pieces. Raises
    BadExtract if the extract is not finished, or needs more than PIECES_MAX pieces.
    """
    content = finished_manifest(folder)
    parcel, size = _parcel_id(content), parcel_bytes(content)
    count = max(-(-size // piece_bytes), 1)
    if count > PIECES_MAX:
        raise BadExtract("The extract needs too many pieces.", bytes=size).with_remedy(
            "Raise `extract.piece_bytes`, then repeat."
        )
    piece_bytes = -(-size // count)
    number, buffer = 1, bytearray()
    for block in pack(folder):
        buffer += block
        while len(buffer) >= piece_bytes and number < count:
            yield Piece(parcel, number, count, bytes(buffer[:piece_bytes]))
            del buffer[:piece_bytes]
            number += 1
    yield Piece(parcel, number, count, bytes(buffer))


def _parcel_id(manifest: bytes) -> str:
    return hashlib.sha256(manifest).hexdigest()


async def deliver(client: Client, folder: Place, target: str, piece_bytes: int = PIECE_BYTES) -> int:
    """Send a finished extract and return the number of documents; 0 if this extract was sent before.

    Raises BadExtract and the errors of ``Client.send``.
    """
    content = finished_manifest(folder)
    parcel, manifest = _parcel_id(content), read_manifest(content)
    if (folder / DELIVERED).exists() and (folder / DELIVERED).read(200).decode("ascii", "replace").strip() == parcel:
        return 0
    sent = 0
    for piece in cut(folder, piece_bytes):
        key = f"semq/extract/{manifest.business_date}/{manifest.store}.{piece.number}"
        token = f"extract {piece.parcel} {piece.number}/{piece.count}"
        await client.send(target, piece.encode(), app_key=key, content_type=CONTENT_TYPE, token=token)
        sent += 1
    (folder / DELIVERED).write(f"{parcel}\n".encode())
    return sent


class _Spool:
    """The pieces of a node's incomplete parcels, on the disk and counted here, so that a piece costs no search."""

    def __init__(self, folder: Place) -> None:
        self.folder = folder
        self.sizes = {parcel.name: parcel.sizes() for parcel in folder.folders()}  # by parcel and piece
        self.bytes = sum(size for pieces in self.sizes.values() for size in pieces.values())
        self.pieces = sum(map(len, self.sizes.values()))

    def has_room(self, parcel: str, piece: str, size: int, bytes_max: int) -> bool:
        """Whether a piece may be added; one that arrives again replaces itself."""
        present = self.sizes.get(parcel, {}).get(piece)
        return self.bytes - (present or 0) + size <= bytes_max and self.pieces + (present is None) <= SPOOLED_MAX

    def add(self, parcel: str, piece: str, content: bytes) -> int:
        """Write a piece and return the number of its parcel's pieces."""
        (self.folder / parcel / piece).write(content)
        pieces = self.sizes.setdefault(parcel, {})
        self.bytes += len(content) - pieces.get(piece, 0)
        self.pieces += piece not in pieces
        pieces[piece] = len(content)
        return len(pieces)

    def files(self, parcel: str) -> list[Place]:
        return [self.folder / parcel / piece for piece in sorted(self.sizes[parcel])]

    def remove(self, parcel: str) -> None:
        pieces = self.sizes.pop(parcel, {})
        self.bytes -= sum(pieces.values())
        self.pieces -= len(pieces)
        (self.folder / parcel).remove()


@dataclass
class Collector:
    """Accepts pieces of many nodes in any order, and writes the extracts below ``root``.

    Only one process may collect below ``root`` at a time (``lock``).
    """

    root: Place
    verify: Verify | None = None  #: checks the signatures of the extracts, which are then required
    bytes_max: int = BYTES_MAX  #: largest total size of one node's pieces in the spool
    received: list[Manifest] = field(default_factory=list)  #: the manifests that ``accept`` has returned
    _spools: dict[str, _Spool] = field(default_factory=dict)  # by node

    def lock(self) -> AbstractContextManager[None]:
        """Lock the spool for the block. Raises BeingRun if another process has it."""
        return (self.root / SPOOL).lock()

    def accept(self, document: Document) -> Manifest | None:
        """Store a piece in the spool. If its parcel is now complete, move the extract to ``root``.

        Return the manifest of the extract that is then below ``root``: that of the parcel, or one with a later
        watermark. Return None if the parcel is incomplete, or was joined before. Raises BadExtract if the document is
        not a piece, the spool of its node is full, or its parcel is wrong; BeingRun if another process writes the
        extract. A wrong parcel is removed from the spool; after any other error its pieces stay.
        """
        node = document.source.partition("/")[0]
        piece = read_piece(document.payload)
        spool = self._spools.get(node) or self._spools.setdefault(node, _Spool(self.root / SPOOL / node))
        parcel, number = f"{piece.parcel}-{piece.count}", f"{piece.number:05d}"
        if self._is_joined(spool, piece.parcel):
            spool.remove(parcel)
            return None
        if not spool.has_room(parcel, number, len(piece.content), self.bytes_max):
            raise BadExtract(
                "The spool of this node is full.", node=node, bytes_max=self.bytes_max, pieces_max=SPOOLED_MAX
            ).with_remedy(
                f"Remove incomplete extracts of this node below {SPOOL}, then have it send its extract again."
            )
        if spool.add(parcel, number, piece.content) < piece.count:
            return None
        try:
            manifest = self._receive(spool.files(parcel), node)
        except BadExtract:
            spool.remove(parcel)
            raise
        self._note_joined(spool, piece.parcel, manifest)
        spool.remove(parcel)
        self.received.append(manifest)
        return manifest

    def _receive(self, files: list[Place], node: str) -> Manifest:
        """Join a parcel. Every error is one of its content, except those of the storage and its locks."""
        try:
            return receive(_JoinedFiles(files), self.root, node, verify=self.verify)
        except (BadExtract, BeingRun, OSError):
            raise
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:200]
            raise BadExtract("The extract cannot be read.", node=node, why=why) from error

    def _is_joined(self, spool: _Spool, parcel: str) -> bool:
        """Whether the extract of a parcel, or a later one of its ledger and date, is below ``root``."""
        extracts = (line.removeprefix(f"{parcel} ") for line in _joined(spool) if line.startswith(f"{parcel} "))
        return any((self.root / extract / MANIFEST_FILE).exists() for extract in extracts)

    def _note_joined(self, spool: _Spool, parcel: str, manifest: Manifest) -> None:
        extract = f"{date_folder(manifest.day)}/{folder_of(manifest.node, manifest.store)}"
        lines = [*_joined(spool), f"{parcel} {extract}"]
        (spool.folder / JOINED).write("".join(f"{line}\n" for line in lines[-_JOINED_MAX:]).encode())


def _joined(spool: _Spool) -> list[str]:
    file = spool.folder / JOINED
    return file.read(_JOINED_MAX * 1024).decode("ascii", "replace").splitlines() if file.exists() else []


class _JoinedFiles:
    """A sequence of files, read as one stream."""

    def __init__(self, files: list[Place]) -> None:
        self._files = iter(files)
        self._stream = next(self._files).open()

    def read(self, size: int, /) -> bytes:
        while True:
            block = bytes(self._stream.read(size))
            if block:
                return block
            next_file = next(self._files, None)
            if next_file is None:
                return b""
            self._stream.close()
            self._stream = next_file.open()
