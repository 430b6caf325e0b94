"""The removal of the pieces of documents that ended before they were complete.

At the sender: pieces without a waiting submission, except those of bodies that are still arriving. At the receiver:
pieces that were recorded long ago and have no manifest here; the lines of the ledger stay.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

import structlog

from local_node.pieces.upload import drop_pieces
from semq.engine.bodies import decode_envelope
from semq.engine.local_engine import LocalEngine
from semq.errors import SemqError, Unavailable
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Stored
from semq.store.views import pieces as views
from semq.umx_t.pieces import MANIFEST_MAX, parse_piece_name

SWEEP_S = 60.0
KEPT_DAYS = 30  # longest time that pieces wait for their manifest
PAGE = 1000
DAY_MS = 86_400_000
log = structlog.get_logger("semq.pieces")


class Remains:
    """Finds and removes remaining pieces."""

    def __init__(
        self,
        engine: Callable[[], LocalEngine],
        store: Callable[[], PostgresStore],
        arriving: Callable[[], set[int]],
    ) -> None:
        """``arriving``: the documents whose bodies are not accepted yet."""
        self._engine = engine
        self._store = store
        self._arriving = arriving
        self._sweeping: asyncio.Task[None] | None = None

    def sweep(self) -> None:
        """Remove remaining pieces, unless a search is under way."""
        if not self.is_sweeping:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep(), name="remains")

    @property
    def is_sweeping(self) -> bool:
        """Whether a search is under way."""
        return self._sweeping is not None and not self._sweeping.done()

    async def stop(self) -> None:
        """End a search under way."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    async def _sweep(self) -> None:
        try:
            await self._sweep_sender()
            await self._sweep_receiver()
        except Unavailable:
            return  # the next sweep finds them

    async def _sweep_sender(self) -> None:
        arriving = self._arriving()  # before the query: a body may be accepted while it runs
        for document in await self._store().read(views.without_document):
            if document not in arriving:
                log.info("pieces_removed", document=document)
                self._engine().core.post(drop_pieces(document))

    async def _sweep_receiver(self) -> None:
        before = self._engine().core.now_ms() - KEPT_DAYS * DAY_MS
        for source in await self._store().read(views.sources):
            old: defaultdict[str, list[int]] = defaultdict(list)
            for each in await self._store().read(views.arrived, source, before):
                old[document_of(each)].append(each.bref)
            if not old:
                continue
            known = await self._documents(source)
            for document, brefs in old.items():
                if document not in known:
                    log.warning("pieces_without_document", document=document, source=source, pieces=len(brefs))
                    self._engine().answers.finish(brefs)

    async def _documents(self, source: str) -> set[str]:
        """Return the documents of an institution whose manifests wait here or are parked."""
        found: set[str] = set()
        after = 0
        while page := await self._store().read(views.others, source, MANIFEST_MAX, after, PAGE):
            found |= _named(page)
            after = page[-1].bref
        return found


def document_of(piece: views.RecordedMessage) -> str:
    """Return the document of a recorded piece; an empty text if its name cannot be read."""
    try:
        return parse_piece_name(decode_envelope(Stored(piece.envelope, b"")).attributes.pieces).document
    except SemqError:
        return ""


def _named(page: Sequence[views.RecordedMessage]) -> set[str]:
    return {decode_envelope(Stored(each.envelope, b"")).attributes.pieces for each in page} - {""}
