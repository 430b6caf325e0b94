"""Documents in pieces in lists and bodies for people: the size and body of the document replace those of its manifest.

A manifest is a row like any other; its payload describes the document. Only rows as small as a manifest are read.
Called by the operations that show rows and bodies, and by the assembly of documents for applications.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from semq.engine.bodies import decode_envelope
from semq.engine.errors import InPieces, PayloadGone, PiecesMissing
from semq.errors import SemqError
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Stored
from semq.store.views import pieces as views
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import MANIFEST_MAX, PiecesManifest, digest_of, read_manifest
from semq.umx_t.status import Direction

ANSWER_BYTES = 8 << 20  # most bytes of a body in one answer
BODIES = {"outbound": "tb_0031_body", "inbound": "tb_0030_body"}


async def with_sizes(store: PostgresStore, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows; those of manifests have the document's ``size`` and ``pieces``, the number of its pieces."""
    small = [row for row in rows if _may_be_manifest(row)]
    if not small:
        return list(rows)
    found: dict[tuple[str, int], PiecesManifest] = {}
    for side in BODIES:
        numbers = [int(row["id"]) for row in small if row["side"] == side]
        for number, envelope, payload in await store.read(views.bodies, side, numbers) if numbers else ():
            manifest = _manifest(store, side, number, envelope, payload)
            if manifest is not None:
                found[side, number] = manifest
    return [row | _facts(found.get((row["side"], row["id"]))) for row in rows]


def _may_be_manifest(row: dict[str, Any]) -> bool:
    is_own = row["side"] == "inbound" or row["direction"] == Direction.OWN.name
    return is_own and "submission" not in row and not row.get("void") and row["size"] <= MANIFEST_MAX


def _manifest(store: PostgresStore, side: str, number: int, envelope: bytes, payload: bytes) -> PiecesManifest | None:
    """Return the manifest in a stored body, if it is one that this node can read."""
    try:
        read = decode_envelope(Stored(envelope, b""))
        if not _names_document(read.attributes.pieces) or (side == "outbound" and read.is_sealed):
            return None
        return read_manifest(store.locking.unlock(BODIES[side], number, payload))
    except SemqError:
        return None


def _facts(manifest: PiecesManifest | None) -> dict[str, Any]:
    return {} if manifest is None else {"size": manifest.size, "pieces": {"count": manifest.count}}


class LargeBodies:
    """The bodies of received documents in pieces, some pieces at a time."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self._last: tuple[int, PiecesManifest, list[int]] | None = None  #: the document read last, by its row

    async def read(self, row: dict[str, Any], offset: int | None, length: int | None) -> dict[str, Any] | None:
        """Return at most ``length`` bytes of a document's body from ``offset`` on, with digest and size of the whole
        body; None if the document is not in pieces. Fewer bytes end with a piece.

        Raises PayloadGone for another party's pieces, InPieces without an offset, PiecesMissing.
        """
        if "pieces" in row or (row["side"] == "outbound" and await self._is_manifest(row)):
            raise PayloadGone("The pieces of this document are deleted here as they arrive.", name=row["name"])
        found = await self._manifest(row) if _may_be_manifest(row) and row["side"] == "inbound" else None
        if found is None:
            return None
        if offset is None:
            raise InPieces(name=row["name"], size=found.manifest.size)
        pieces, manifest = await self._pieces(row, *found), found.manifest
        first = offset // manifest.piece_bytes
        begin = first * manifest.piece_bytes
        end = min(begin + max(1, ANSWER_BYTES // manifest.piece_bytes) * manifest.piece_bytes, manifest.size)
        end = end if length is None else min(end, offset + length)
        needed = pieces[first : -(-end // manifest.piece_bytes)] if offset < end else []
        body = b"".join([await self._piece(bref) for bref in needed])
        return {"body": body[offset - begin : end - begin], "digest": manifest.digest, "size": manifest.size}

    async def _stored(self, row: dict[str, Any]) -> tuple[bytes, bytes] | None:
        found = await self.store.read(views.bodies, row["side"], [int(row["id"])])
        return (found[0][1], found[0][2]) if found else None

    async def _is_manifest(self, row: dict[str, Any]) -> bool:
        """Whether a message of this node is a manifest, also a sealed one."""
        stored = await self._stored(row) if _may_be_manifest(row) else None
        return stored is not None and _names_document(decode_envelope(Stored(stored[0], b"")).attributes.pieces)

    async def _manifest(self, row: dict[str, Any]) -> "_NamedManifest | None":
        stored = await self._stored(row)
        manifest = _manifest(self.store, "inbound", int(row["id"]), *stored) if stored else None
        if stored is None or manifest is None:
            return None
        return _NamedManifest(decode_envelope(Stored(stored[0], b"")).attributes.pieces, manifest)

    async def _pieces(self, row: dict[str, Any], document: str, manifest: PiecesManifest) -> list[int]:
        number = int(row["id"])
        if self._last is None or self._last[:2] != (number, manifest):
            found = await self.store.read(views.pieces_of, str(parse_lk0(row["lk0"]).node), document)
            self._last = number, manifest, await asyncio.to_thread(chosen, found, document, manifest)
        return self._last[2]

    async def _piece(self, bref: int) -> bytes:
        payload = await self.store.read(views.payload, bref)
        if payload is None:
            raise PiecesMissing("A piece was removed while the document was read.", bref=bref)
        return self.store.locking.unlock(BODIES["inbound"], bref, payload)


async def pieces_of(store: PostgresStore, brefs: Sequence[int]) -> dict[int, list[int]]:
    """Return the rows of the pieces of those received messages that are manifests."""
    found: dict[int, list[int]] = {}
    for bref, envelope, _ in await store.read(views.bodies, "inbound", brefs) if brefs else ():
        read = decode_envelope(Stored(envelope, b""))
        if _names_document(read.attributes.pieces):
            pieces = await store.read(views.pieces_of, str(read.lk0.node), read.attributes.pieces)
            found[bref] = [piece.bref for piece in pieces]
    return found


class _NamedManifest(NamedTuple):
    document: str
    manifest: PiecesManifest


def _names_document(pieces: str) -> bool:
    return bool(pieces) and "/" not in pieces


def chosen(found: Sequence[views.ArrivedPiece], document: str, manifest: PiecesManifest) -> list[int]:
    """Return the rows of the pieces of a document in order.

    Raises PiecesMissing unless they are the pieces that the manifest was made of.
    """
    rows: dict[int, tuple[int, bytes]] = {}
    for piece in found:
        if piece.number < manifest.count and piece.size == manifest.size_of(piece.number):
            rows.setdefault(piece.number, (piece.bref, piece.digest))
    if len(rows) < manifest.count:
        raise PiecesMissing(document=document, pieces=manifest.count, found=len(rows))
    in_order = [rows[number] for number in range(manifest.count)]
    if digest_of(digest for _, digest in in_order) != manifest.pieces:
        raise PiecesMissing("The pieces are not those of which the sender made the document.", document=document)
    return [bref for bref, _ in in_order]
