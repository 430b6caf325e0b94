"""Delivery of extracts to the hub's storage as SEMQ documents: cut into pieces, sent, collected, joined.

``deliver`` sends an extract as a parcel (one stream of bytes) to the institution that collects for the hub. Each piece
has its own token, so a repeated ``deliver`` makes no second document. At the hub, ``Collector`` keeps pieces in a spool
until a parcel is complete. The source of the documents, not the parcel, identifies the node.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from semq.app import Client, Document
from spark_reconcile.errors import BadExtract
from spark_reconcile.extracts.manifest import MANIFEST_FILE, Manifest, Verify, date_folder, folder_of, read_manifest
from spark_reconcile.extracts.parcel import BYTES_MAX, CONTENT_TYPE, finished_manifest, pack, parcel_bytes, receive
from spark_reconcile.storage import Place

MAGIC = b"SEMQ-PIECE-1\n"
PIECE_BYTES = 8 << 20
PIECES_MAX = 1 << 16
SPOOL = "_incoming"
DELIVERED = "delivered.txt"  # file in the extract's folder that names the last parcel sent
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
    if len(body) < _HEADER_BYTES or not body.startswith(MAGIC) or not 1 <= number <= count <= PIECES_MAX:
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


@dataclass
class Collector:
    """Accepts pieces of many nodes in any order, and writes the extracts below ``root``."""

    root: Place
    verify: Verify | None = None  #: checks the signatures of the extracts, which are then required
    bytes_max: int = BYTES_MAX  #: largest total size of one node's pieces in the spool
    received: list[Manifest] = field(default_factory=list)  #: the manifests that ``accept`` has returned

    def accept(self, document: Document) -> Manifest | None:
        """Store a piece in the spool. If its parcel is now complete, move the extract to ``root``.

        Return the manifest of the extract that is then below ``root``: that of the parcel, or one with a later
        watermark. Return None if the parcel is incomplete, or was joined before. Raises BadExtract if the document is
        not a piece, the spool of its node is full, or its parcel is wrong; BeingRun if another process writes the
        extract. A wrong parcel is removed from the spool; after any other error its pieces stay.
        """
        node = document.source.partition("/")[0]
        piece = read_piece(document.payload)
        spool = self.root / SPOOL / f"source={node}"
        folder = spool / f"{piece.parcel}-{piece.count}"
        if self._is_joined(spool, piece.parcel):
            folder.remove()
            return None
        file = folder / f"{piece.number:05d}"
        other_bytes = _bytes_in(spool) - max(file.size(), 0)  # a piece that arrives again replaces itself
        if other_bytes + len(piece.content) > self.bytes_max:
            raise BadExtract("The spool of this node is full.", node=node, bytes_max=self.bytes_max).with_remedy(
                f"Remove incomplete extracts of this node below {SPOOL}, then have it send its extract again."
            )
        _move_files(spool / piece.parcel, folder)  # earlier versions stored the pieces of a parcel there
        file.write(piece.content)
        files = folder.files()
        if len(files) < piece.count:
            return None
        try:
            manifest = receive(_JoinedFiles(files), self.root, node, verify=self.verify)
        except BadExtract:
            folder.remove()
            raise
        self._note_joined(spool, piece.parcel, manifest)
        folder.remove()
        self.received.append(manifest)
        return manifest

    def _is_joined(self, spool: Place, parcel: str) -> bool:
        """Whether the extract of a parcel, or a later one of its ledger and date, is below ``root``."""
        extracts = (line.removeprefix(f"{parcel} ") for line in _joined(spool) if line.startswith(f"{parcel} "))
        return any((self.root / extract / MANIFEST_FILE).exists() for extract in extracts)

    def _note_joined(self, spool: Place, parcel: str, manifest: Manifest) -> None:
        extract = f"{date_folder(manifest.day)}/{folder_of(manifest.node, manifest.store)}"
        lines = [*_joined(spool), f"{parcel} {extract}"]
        (spool / JOINED).write("".join(f"{line}\n" for line in lines[-_JOINED_MAX:]).encode())


def _joined(spool: Place) -> list[str]:
    file = spool / JOINED
    return file.read(_JOINED_MAX * 1024).decode("ascii", "replace").splitlines() if file.exists() else []


def _move_files(old: Place, new: Place) -> None:
    if old.exists():
        new.make()
        for file in old.files():
            file.move(new / file.name)
        old.remove()


def _bytes_in(spool: Place) -> int:
    return sum(max(file.size(), 0) for folder in spool.folders() for file in folder.files())


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
