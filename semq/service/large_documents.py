"""Documents in pieces among the rows that people see: with the size of the document, not of its manifest.

A manifest is a row like any other; what it stands for is in its payload. Only rows as small as a manifest are read.
Called by the operations that show rows.
"""

from collections.abc import Sequence
from typing import Any

from semq.engine.bodies import decode_envelope
from semq.errors import SemqError
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Stored
from semq.store.views import pieces as views
from semq.umx_t.pieces import MANIFEST_MAX, PiecesManifest, read_manifest
from semq.umx_t.status import Direction

BODIES = {"outbound": "tb_0031_body", "inbound": "tb_0030_body"}


async def with_sizes(store: PostgresStore, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows; manifests have ``size`` of their document and ``pieces``, with their number."""
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
        if not read.attributes.pieces or "/" in read.attributes.pieces or (side == "outbound" and read.is_sealed):
            return None
        return read_manifest(store.locking.unlock(BODIES[side], number, payload))
    except SemqError:
        return None


def _facts(manifest: PiecesManifest | None) -> dict[str, Any]:
    return {} if manifest is None else {"size": manifest.size, "pieces": {"count": manifest.count}}
