"""Documents in pieces at the receiver's node: found, checked and read piece by piece for the application.

Pieces wait as messages to the user PIECES_USER, whose inbox no application can open. When a manifest is due for
delivery, the digests of its pieces are compared with it; the bytes are read while the application receives them. The
commit that ends the manifest also ends the pieces.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

import structlog
from msgspec.structs import replace

from semq.broker.queues.bodies import LargeBody
from semq.engine.errors import PiecesMissing
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Delivery
from semq.engine.receiver.pieces import PiecesFound, PiecesHere, pieces_here, pieces_in_order
from semq.errors import SemqError, Unavailable
from semq.service.engine_handle import EngineHandle
from semq.store.broker.operations import ReadDone
from semq.store.postgres.store import PostgresStore
from semq.store.views import pieces as views
from semq.umx_t.pieces import read_manifest

log = structlog.get_logger("semq.pieces")
BODY_TABLE = "tb_0030_body"
SEARCHES_MAX = 16  # manifests of one source that may wait for a search


class PiecedBody(LargeBody):
    """The body of a document in pieces; the payloads of its pieces are in tb_0030_body."""

    __slots__ = ("_brefs", "_store", "_tasks")

    def __init__(self, size: int, brefs: Sequence[int], store: PostgresStore) -> None:
        super().__init__(size)
        self._brefs = brefs
        self._store = store
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def chunk_count(self) -> int:
        return len(self._brefs)

    def read(self, index: int, done: ReadDone) -> None:
        task = asyncio.get_running_loop().create_task(self._read(self._brefs[index], done))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _read(self, bref: int, done: ReadDone) -> None:
        try:
            payload = await self._store.execute(views.payload, bref)
            if payload is None:
                raise PiecesMissing("A piece was removed while the document was read.", bref=bref)
            done(self._store.locking.unlock(BODY_TABLE, bref, payload), None)
        except SemqError as error:
            done(None, error)


class JoinedDelivery(Delivery, frozen=True):
    """The delivery of a document in pieces; it replaces the delivery of the document's manifest."""

    body: PiecedBody


class Assembly:
    """Joins documents in pieces before applications receive them."""

    def __init__(self, engine: EngineHandle[LocalEngine], store: PostgresStore) -> None:
        self._engine = engine
        self._store = store
        #: by row of a joined document's manifest: rows of its pieces, until the document is acknowledged, rejected or
        #: given back
        self._pieces: dict[int, list[int]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        #: by source, then by document: manifests whose pieces are searched; one search of a source at a time
        self._searches: dict[str, dict[str, tuple[LocalEngine, PiecesFound]]] = {}

    def find_pieces(self, source: str, document: str, found: PiecesFound) -> None:
        """Search for the pieces of a document (``FindPieces``)."""
        waiting = self._searches.setdefault(source, {})
        if document in waiting or len(waiting) >= SEARCHES_MAX:
            return
        waiting[document] = self._engine.current, found
        if len(waiting) == 1:
            task = asyncio.get_running_loop().create_task(self._search(source, waiting))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _search(self, source: str, waiting: dict[str, tuple[LocalEngine, PiecesFound]]) -> None:
        while waiting:
            document = next(iter(waiting))
            here = await self._pieces_here(source, document)
            engine, found = waiting.pop(document)
            if here is not None and engine is self._engine.current:
                found(here)
        del self._searches[source]

    async def _pieces_here(self, source: str, document: str) -> PiecesHere | None:
        try:
            arrived = await self._store.execute(views.pieces_of, source, document)
            return await asyncio.to_thread(pieces_here, arrived)
        except Unavailable:
            return None
        except Exception:
            log.exception("pieces_not_found", source=source, document=document)
            return None

    @staticmethod
    def is_needed(delivery: Delivery) -> bool:
        """Return whether a delivery is a manifest that has to be replaced by its document."""
        return bool(delivery.envelope.attributes.pieces) and not isinstance(delivery, JoinedDelivery)

    def join(self, delivery: Delivery, deliver: Callable[[Delivery], None], not_joined: Callable[[], None]) -> None:
        """Call ``deliver`` with the joined document.

        If that is not possible, call ``not_joined``, then give the document back (Unavailable) or fail it.
        """
        task = asyncio.get_running_loop().create_task(self._join(delivery, deliver, not_joined))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def take_with_pieces(self, brefs: Iterable[int]) -> list[int]:
        """Return the rows of documents and of their pieces, which end in the same commit, and forget the pieces."""
        if not self._pieces:
            return list(brefs)
        return [row for bref in brefs for row in (bref, *self._pieces.pop(bref, ()))]

    def forget(self, brefs: Iterable[int]) -> None:
        """Forget the pieces of documents that are given back or rejected."""
        for bref in brefs:
            self._pieces.pop(bref, None)

    async def _join(
        self, delivery: Delivery, deliver: Callable[[Delivery], None], not_joined: Callable[[], None]
    ) -> None:
        answers = self._engine.current.answers
        try:
            joined = await self._make_joined_delivery(delivery)
        except Unavailable:
            not_joined()
            answers.give_back([delivery.bref])
        except SemqError as error:
            not_joined()
            log.error("document_not_joined", lk0=delivery.envelope.ident, error=error.advice())
            answers.fail([delivery.bref], str(error))
        except Exception as error:  # whatever the manifest causes ends its own document only
            not_joined()
            log.exception("document_not_joined", lk0=delivery.envelope.ident)
            answers.fail([delivery.bref], repr(error))
        else:
            deliver(joined)

    async def _make_joined_delivery(self, delivery: Delivery) -> Delivery:
        envelope = delivery.envelope
        manifest = read_manifest(bytes(delivery.payload))
        document, source = envelope.attributes.pieces, str(envelope.lk0.node)
        pieces = await self._store.execute(views.pieces_of, source, document)
        rows = await asyncio.to_thread(pieces_in_order, pieces, document, manifest)
        self._pieces[delivery.bref] = [piece.bref for piece in pieces]
        return JoinedDelivery(
            bref=delivery.bref,
            envelope=replace(envelope, digest=bytes.fromhex(manifest.digest)),
            payload=b"",
            redelivered=delivery.redelivered,
            deliveries=delivery.deliveries,
            body=PiecedBody(manifest.size, rows, self._store),
        )
