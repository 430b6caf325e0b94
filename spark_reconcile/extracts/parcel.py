"""An extract as one stream of bytes, which travels to the hub as SEMQ documents.

A parcel is a line that names the format, the length of the manifest, the manifest, and the files in its order. The node
packs. The hub checks before it accepts: lengths before reading, hashes while writing, then the node of the lines; the
manifest is written last. A parcel that arrives twice changes nothing, and an older one never replaces a newer one.
"""

import hashlib
from collections.abc import Iterator
from typing import Protocol

from spark_reconcile.errors import BadExtract
from spark_reconcile.extracts.extract import remove_others
from spark_reconcile.extracts.manifest import (
    MANIFEST_MAX,
    NAME,
    ExtractPart,
    Manifest,
    date_folder,
    folder_of,
    read_manifest,
)
from spark_reconcile.sources.parts import checked_contents
from spark_reconcile.storage import Place

MAGIC = b"SEMQ-EXTRACT-1\n"
CONTENT_TYPE = "application/x-semq-extract"
ARRIVING = ".arriving"  # folder below the extract's, for unchecked files
BYTES_MAX = 64 << 30  # total size of the files of one parcel
_BLOCK = 1 << 20
_LENGTH = 8


class ByteSource(Protocol):
    """A source of bytes: a file, a socket, a document's body."""

    def read(self, size: int, /) -> bytes:
        """Read at most ``size`` bytes; none at the end."""


def pack(folder: Place) -> Iterator[bytes]:
    """Return the parcel of a finished extract in blocks. Raises BadExtract if there is none."""
    if not (folder / NAME).exists():
        raise BadExtract("There is no finished extract.", state="UNFINISHED", folder=str(folder))
    content = (folder / NAME).read(MANIFEST_MAX)
    manifest = read_manifest(content)
    yield MAGIC + len(content).to_bytes(_LENGTH, "big") + content
    for part in manifest.files:
        with (folder / part.name).open() as stream:
            while block := stream.read(_BLOCK):
                yield block


def receive(stream: ByteSource, root: Place, node: str, *, bytes_max: int = BYTES_MAX) -> Manifest:
    """Unpack a parcel sent by ``node`` below ``root``; return the manifest now in force there.

    Raises BadExtract if the parcel is wrong or of another node's ledger; the folder is then unchanged.
    """
    if _exactly(stream, len(MAGIC)) != MAGIC:
        raise BadExtract("This is not the parcel of an extract.", state="UNKNOWN_SCHEMA")
    length = int.from_bytes(_exactly(stream, _LENGTH), "big")
    if length > MANIFEST_MAX:
        raise BadExtract("The manifest of the parcel is too long.", state="MANIFEST_WRONG", bytes=length)
    content = _exactly(stream, length)
    manifest = read_manifest(content)
    if manifest.node != node:
        raise BadExtract(
            "The parcel is of another node's ledger.", state="OTHER_NODE", node=manifest.node, sent_by=node
        )
    if sum(part.bytes for part in manifest.files) > bytes_max:
        raise BadExtract("The parcel is too large.", state="MANIFEST_WRONG", bytes_max=bytes_max)
    folder = root / date_folder(manifest.day) / folder_of(manifest.node, manifest.store)
    with folder.lock():
        standing = _standing(folder)
        if standing is not None and standing.watermark > manifest.watermark:
            return standing
        arriving = folder / ARRIVING
        arriving.remove()
        try:
            for part in manifest.files:
                _take(stream, arriving / part.name, part, manifest)
            if stream.read(1):
                raise BadExtract("The parcel continues after its last file.", state="OTHER_ROWS")
            for part in manifest.files:
                (arriving / part.name).move(folder / part.name)
        finally:
            arriving.remove()
        (folder / NAME).write(content)
        remove_others(folder, manifest)
    return manifest


def _standing(folder: Place) -> Manifest | None:
    try:
        return read_manifest((folder / NAME).read(MANIFEST_MAX)) if (folder / NAME).exists() else None
    except BadExtract:
        return None


def _take(stream: ByteSource, file: Place, part: ExtractPart, manifest: Manifest) -> None:
    """Write one file, and compare it with the manifest."""
    digest = hashlib.sha256()
    left = part.bytes
    with file.writer() as target:
        while left:
            block = stream.read(min(left, _BLOCK))
            if not block:
                raise BadExtract("The parcel ends too early.", state="TRUNCATED", file=part.name, missing=left)
            digest.update(block)
            target.write(block)
            left -= len(block)
    if digest.hexdigest() != part.sha256:
        raise BadExtract(
            "A file of the parcel is not the one that its manifest describes.", state="ALTERED", file=part.name
        )
    seen = checked_contents(part, file, manifest)
    if seen.state:
        raise BadExtract("A file of the parcel differs from its manifest.", state=seen.state, why=seen.note)


def _exactly(stream: ByteSource, size: int) -> bytes:
    content = b""
    while len(content) < size:
        block = stream.read(size - len(content))
        if not block:
            raise BadExtract("The parcel ends too early.", state="TRUNCATED", missing=size - len(content))
        content += block
    return content
