"""An extract as one stream of bytes, which travels to the hub as SEMQ documents.

A parcel is a line that names the format, the length of the manifest, the manifest, and the files in the manifest's
order. A parcel that arrives twice changes nothing. An extract with an earlier watermark never replaces one with a later
watermark.
"""

import hashlib
from collections.abc import Iterator
from typing import Protocol

from spark_reconcile.errors import BadExtract
from spark_reconcile.extracts.extract import remove_parts_of_earlier_extract
from spark_reconcile.extracts.manifest import (
    MANIFEST_FILE,
    MANIFEST_MAX,
    ExtractPart,
    Manifest,
    Verify,
    date_folder,
    folder_of,
    read_manifest,
)
from spark_reconcile.sources.inputs import signature_fault
from spark_reconcile.sources.parts import checked_contents
from spark_reconcile.storage import Place

MAGIC = b"SEMQ-EXTRACT-1\n"
CONTENT_TYPE = "application/x-semq-extract"
ARRIVING = ".arriving"  # folder in the folder of the extract, for files that are not checked yet
BYTES_MAX = 64 << 30  # total size of the files of one parcel
_BLOCK = 1 << 20
_LENGTH_BYTES = 8  # size of the field with the length of the manifest


class ByteSource(Protocol):
    """A source of bytes: a file, a socket, a document's body."""

    def read(self, size: int, /) -> bytes:
        """Read at most ``size`` bytes; empty at the end."""


def finished_manifest(folder: Place) -> bytes:
    """Return the _manifest.json of a finished extract. Raises BadExtract if the extract is not finished."""
    if not (folder / MANIFEST_FILE).exists():
        raise BadExtract("There is no finished extract.", state="UNFINISHED", folder=str(folder))
    return (folder / MANIFEST_FILE).read(MANIFEST_MAX)


def parcel_bytes(manifest: bytes) -> int:
    """Return the length of the parcel whose extract has this _manifest.json."""
    files = sum(part.bytes for part in read_manifest(manifest).files)
    return len(MAGIC) + _LENGTH_BYTES + len(manifest) + files


def pack(folder: Place) -> Iterator[bytes]:
    """Yield the parcel of a finished extract in blocks. Raises BadExtract if the extract is not finished."""
    content = finished_manifest(folder)
    manifest = read_manifest(content)
    yield MAGIC + len(content).to_bytes(_LENGTH_BYTES, "big") + content
    for part in manifest.files:
        with (folder / part.name).open() as stream:
            while block := stream.read(_BLOCK):
                yield block


def receive(
    stream: ByteSource, root: Place, node: str, *, verify: Verify | None = None, bytes_max: int = BYTES_MAX
) -> Manifest:
    """Unpack a parcel sent by ``node`` below ``root``; return the manifest that is then valid there.

    Raises BadExtract if the parcel is wrong, contains another node's ledger, or lacks a valid signature and ``verify``
    is given; BeingRun if another process writes the extract. After an error the earlier extract stays valid.
    """
    if _read_exactly(stream, len(MAGIC)) != MAGIC:
        raise BadExtract("This is not the parcel of an extract.", state="UNKNOWN_SCHEMA")
    length = int.from_bytes(_read_exactly(stream, _LENGTH_BYTES), "big")
    if length > MANIFEST_MAX:
        raise BadExtract("The manifest of the parcel is too long.", state="MANIFEST_WRONG", bytes=length)
    content = _read_exactly(stream, length)
    manifest = read_manifest(content)
    if manifest.node != node:
        raise BadExtract(
            "The parcel contains another node's ledger.", state="OTHER_NODE", node=manifest.node, sent_by=node
        )
    if verify is not None:
        state, why = signature_fault(manifest, verify)
        if state:
            raise BadExtract("The extract in the parcel has no valid signature.", state=state, why=why)
    if sum(part.bytes for part in manifest.files) > bytes_max:
        raise BadExtract("The parcel is too large.", state="MANIFEST_WRONG", bytes_max=bytes_max)
    folder = root / date_folder(manifest.day) / folder_of(manifest.node, manifest.store)
    with folder.lock():
        present = _present_manifest(folder)
        if present is not None and present.watermark > manifest.watermark:
            return present
        arriving = folder / ARRIVING
        arriving.remove()
        try:
            for part in manifest.files:
                _write_part(stream, arriving / part.name, part, manifest)
            if stream.read(1):
                raise BadExtract("The parcel continues after its last file.", state="OTHER_ROWS")
            for part in manifest.files:
                (arriving / part.name).move(folder / part.name)
        finally:
            arriving.remove()
        (folder / MANIFEST_FILE).write(content)
        remove_parts_of_earlier_extract(folder, manifest)
    return manifest


def _present_manifest(folder: Place) -> Manifest | None:
    try:
        return read_manifest(finished_manifest(folder))
    except BadExtract:
        return None


def _write_part(stream: ByteSource, file: Place, part: ExtractPart, manifest: Manifest) -> None:
    digest = hashlib.sha256()
    missing = part.bytes
    with file.writer() as target:
        while missing:
            block = stream.read(min(missing, _BLOCK))
            if not block:
                raise BadExtract("The parcel ends too early.", state="TRUNCATED", file=part.name, missing=missing)
            digest.update(block)
            target.write(block)
            missing -= len(block)
    if digest.hexdigest() != part.sha256:
        raise BadExtract(
            "A file of the parcel is not the one that its manifest describes.", state="ALTERED", file=part.name
        )
    check = checked_contents(part, file, manifest, decode_all=True)
    if check.state:
        raise BadExtract("A file of the parcel differs from its manifest.", state=check.state, why=check.note)


def _read_exactly(stream: ByteSource, size: int) -> bytes:
    content = b""
    while len(content) < size:
        block = stream.read(size - len(content))
        if not block:
            raise BadExtract("The parcel ends too early.", state="TRUNCATED", missing=size - len(content))
        content += block
    return content
