"""Documents in pieces, as operations show them: with size and body of the document instead of those of its manifest.

The manifest is the message that lists the pieces.
"""

import asyncio
from base64 import b64encode
from collections.abc import Sequence
from typing import NamedTuple

from semq.answers.messages import MessageBody, MessageRow
from semq.engine.errors import InPieces, PayloadGone, PiecesMissing
from semq.engine.receiver.pieces import pieces_in_order
from semq.engine.stored_envelopes import decode_envelope
from semq.errors import SemqError
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Stored
from semq.store.views import pieces as views
from semq.umx_t.locator import parse_lk0
from semq.umx_t.pieces import MANIFEST_MAX, PiecesManifest, read_manifest
from semq.umx_t.status import Direction

ANSWER_BYTES_MAX = 8 << 20  # bytes of a body in one answer
BODY_TABLES = {"outbound": "tb_0031_body", "inbound": "tb_0030_body"}


async def with_sizes(store: PostgresStore, rows: Sequence[MessageRow]) -> list[MessageRow]:
    """Return the rows; the row of a manifest gets the document's ``size``, and ``pieces`` with their ``count``."""
    candidates = [row for row in rows if _may_be_manifest(row)]
    if not candidates:
        return list(rows)
    manifests: dict[tuple[str, int | str], PiecesManifest] = {}
    for side in BODY_TABLES:
        numbers = [int(row["id"]) for row in candidates if row["side"] == side]
        for number, envelope, payload in await store.execute(views.bodies, side, numbers) if numbers else ():
            manifest = _read_manifest(store, side, number, Stored(envelope, payload))
            if manifest is not None:
                manifests[side, number] = manifest
    return [{**row, **_size_and_count(manifests.get((row["side"], row["id"])))} for row in rows]


def _may_be_manifest(row: MessageRow) -> bool:
    is_own = row["side"] == "inbound" or row["direction"] == Direction.OWN.name
    return is_own and "submission" not in row and not row.get("void") and row["size"] <= MANIFEST_MAX


def _read_manifest(store: PostgresStore, side: str, number: int, stored: Stored) -> PiecesManifest | None:
    """Return the manifest in a stored body; None if it is no manifest, sealed by this node, or unreadable."""
    try:
        envelope = decode_envelope(stored)
        if not _is_of_manifest(envelope.attributes.pieces) or (side == "outbound" and envelope.is_sealed):
            return None
        return read_manifest(store.locking.unlock(BODY_TABLES[side], number, stored.payload))
    except SemqError:
        return None


def _size_and_count(manifest: PiecesManifest | None) -> MessageRow:
    return {} if manifest is None else {"size": manifest.size, "pieces": {"count": manifest.count}}


class _LastRead(NamedTuple):
    """The document that was read last."""

    bref: int  #: row number of the manifest
    manifest: PiecesManifest
    piece_brefs: list[int]


class LargeBodies:
    """The bodies of received documents in pieces."""

    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self._last: _LastRead | None = None

    async def read(self, row: MessageRow, offset: int | None, length: int | None) -> MessageBody | None:
        """Return bytes of a document's body from ``offset`` on, with digest and size of the whole body; None if the
        document is not in pieces. An answer has at most ``length`` bytes (None: no limit), and at most ANSWER_BYTES_MAX
        or one piece, whichever is more.

        Raises PayloadGone if this node sent the document in pieces, InPieces if ``offset`` is None, PiecesMissing.
        """
        if "pieces" in row or (row["side"] == "outbound" and await self._is_manifest(row)):
            raise PayloadGone("The sender's node deletes the pieces of a document as they arrive.", name=row["name"])
        named = await self._manifest(row) if _may_be_manifest(row) and row["side"] == "inbound" else None
        if named is None:
            return None
        manifest = named.manifest
        if offset is None:
            raise InPieces(name=row["name"], size=manifest.size)
        piece_brefs = await self._piece_brefs(row, named.document, manifest)
        first = offset // manifest.piece_bytes
        begin = first * manifest.piece_bytes
        pieces_max = max(1, ANSWER_BYTES_MAX // manifest.piece_bytes)
        end = min(begin + pieces_max * manifest.piece_bytes, manifest.size)
        if length is not None:
            end = min(end, offset + length)
        needed = piece_brefs[first : -(-end // manifest.piece_bytes)] if offset < end else []
        body = b"".join([await self._piece(bref) for bref in needed])
        body_base64 = b64encode(body[offset - begin : end - begin]).decode()
        return {"digest": manifest.digest, "size": manifest.size, "body_base64": body_base64}

    async def _stored(self, row: MessageRow) -> Stored | None:
        bodies = await self.store.execute(views.bodies, row["side"], [int(row["id"])])
        return Stored(*bodies[0][1:]) if bodies else None

    async def _is_manifest(self, row: MessageRow) -> bool:
        """Whether a message sent by this node is a manifest, sealed or not."""
        stored = await self._stored(row) if _may_be_manifest(row) else None
        return stored is not None and _is_of_manifest(decode_envelope(stored).attributes.pieces)

    async def _manifest(self, row: MessageRow) -> "_NamedManifest | None":
        stored = await self._stored(row)
        if stored is None:
            return None
        manifest = _read_manifest(self.store, "inbound", int(row["id"]), stored)
        return None if manifest is None else _NamedManifest(decode_envelope(stored).attributes.pieces, manifest)

    async def _piece_brefs(self, row: MessageRow, document: str, manifest: PiecesManifest) -> list[int]:
        bref = int(row["id"])
        if self._last is None or (self._last.bref, self._last.manifest) != (bref, manifest):
            arrived = await self.store.execute(views.pieces_of, str(parse_lk0(row["lk0"]).node), document)
            piece_brefs = await asyncio.to_thread(pieces_in_order, arrived, document, manifest)
            self._last = _LastRead(bref, manifest, piece_brefs)
        return self._last.piece_brefs

    async def _piece(self, bref: int) -> bytes:
        payload = await self.store.execute(views.payload, bref)
        if payload is None:
            raise PiecesMissing("A piece was removed while the document was read.", bref=bref)
        return self.store.locking.unlock(BODY_TABLES["inbound"], bref, payload)


async def pieces_of(store: PostgresStore, brefs: Sequence[int]) -> dict[int, list[int]]:
    """Return the row numbers of pieces by the row number of their manifest, for the manifests among ``brefs``."""
    piece_brefs: dict[int, list[int]] = {}
    for bref, stored_envelope, _ in await store.execute(views.bodies, "inbound", brefs) if brefs else ():
        envelope = decode_envelope(Stored(stored_envelope, b""))
        if _is_of_manifest(envelope.attributes.pieces):
            pieces = await store.execute(views.pieces_of, str(envelope.lk0.node), envelope.attributes.pieces)
            piece_brefs[bref] = [piece.bref for piece in pieces]
    return piece_brefs


class _NamedManifest(NamedTuple):
    document: str
    manifest: PiecesManifest


def _is_of_manifest(pieces: str) -> bool:
    """Whether a value of ``@Pieces`` is that of a manifest (DOCUMENT), not of a piece (DOCUMENT/NUMBER)."""
    return bool(pieces) and "/" not in pieces
