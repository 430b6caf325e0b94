"""The removal of pieces whose document ended before it was complete.

The sender removes pieces for which no submission waits, except those of a body that is arriving. A receiver that may
have pieces gets a notice: an empty piece that names the document. The receiver removes pieces without a manifest, if
they have a notice or were recorded more than KEPT_DAYS ago.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import structlog

from local_node.pieces.upload import Uploads, drop_pieces
from semq.engine.errors import BodyUnreadable
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import AppEvent, Submission
from semq.engine.receiver.answers import ActReport
from semq.engine.stored_envelopes import decode_envelope
from semq.errors import BadInput, SemqError, Unavailable
from semq.service.admin import committed
from semq.service.clock_check import ClockCheck
from semq.service.engine_handle import EngineHandle
from semq.store.postgres.store import PostgresStore
from semq.store.rows import Stored
from semq.store.views import pieces as views
from semq.umx_t.address import Address, parse_address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes
from semq.umx_t.pieces import MANIFEST_MAX, NOTICE_NUMBER, PIECES_USER, GivenUpNotice

SWEEP_S = 60.0
KEPT_DAYS = 30  # longest time that pieces wait for their manifest
PAGE = 1000
DAY_MS = 86_400_000
log = structlog.get_logger("semq.pieces")


class Remains:
    """Finds and removes remaining pieces."""

    def __init__(
        self,
        engine: EngineHandle[LocalEngine],
        store: PostgresStore,
        uploads: Uploads,
        check: ClockCheck,
    ) -> None:
        """While ``check`` has doubts about the clocks, pieces are not removed for their age."""
        self._engine = engine
        self._store = store
        self._uploads = uploads
        self._check = check
        self._sweeping: asyncio.Task[None] | None = None
        self._is_wanted = False  #: whether a search has to begin

    def sweep(self) -> None:
        """Remove remaining pieces; a search under way is repeated, because it may miss some."""
        self._is_wanted = True
        if not self.is_sweeping:
            self._sweeping = asyncio.get_running_loop().create_task(self._sweep(), name="remains")

    @property
    def is_sweeping(self) -> bool:
        return self._sweeping is not None and not self._sweeping.done()

    async def stop(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)

    def note_failed(self, event: AppEvent) -> None:
        """Sweep, because a notice about the failed manifest may wait in the store."""
        self.sweep()

    async def _sweep(self) -> None:
        while self._is_wanted:
            self._is_wanted = False
            try:
                await self._sweep_sender()
                await self._sweep_receiver()
            except Unavailable:
                return

    async def _sweep_sender(self) -> None:
        # Before the query, during which a body may be accepted, and another one may begin to arrive.
        arriving, first_later = self._uploads.document_numbers, self._engine.current.core.new_lk0().object_id
        for document, last in await self._store.execute(views.without_document):
            if document not in arriving and document < first_later:
                await self._remove(document, last + 1)

    async def _remove(self, document: int, count: int) -> None:
        """Delete the pieces of a document; if its receiver may have some, first send a notice."""
        given_up = await self._given_up(document)
        if given_up is None:
            self._drop(document, count)
        else:
            self._notify(given_up, partial(self._drop, document, count))

    async def _given_up(self, document: int) -> GivenUpNotice | None:
        """Return the contents of the notice about a document; None if its receiver needs none."""
        stored = await self._store.execute(views.staged, document, NOTICE_NUMBER)
        if stored is None:
            return await self._store.execute(views.given_up, document)
        notice = self._store.locking.unlock_piece(document, NOTICE_NUMBER, stored)
        return msgspec.json.decode(notice, type=GivenUpNotice)

    def _drop(self, document: int, count: int) -> None:
        log.info("pieces_removed", document=document)
        core = self._engine.current.core
        core.post(drop_pieces(core, document, count))

    def _notify(self, given_up: GivenUpNotice, done: Callable[[], None]) -> None:
        """Submit a notice; call ``done`` when it is committed, or refused for good."""

        def failed(error: Exception) -> None:
            if isinstance(error, BadInput):  # without a notice the receiver deletes its pieces after KEPT_DAYS
                done()

        target = parse_address(given_up.target)
        key = AppKey(given_up.domain, given_up.type, given_up.subtype, "")
        notice = Submission(
            Address(target.type, target.id, PIECES_USER), Attributes(app_key=key, pieces=given_up.document), b"",
            lambda accepted: done(), failed,
        )  # fmt: skip
        self._engine.current.submit([notice])

    async def _sweep_receiver(self) -> None:
        stock = self._engine.current.core.pieces
        if not stock.sources:
            return
        is_in_doubt = bool(self._check.doubt(await self._store.execute(views.today)))
        before = None if is_in_doubt else self._engine.current.core.now_ms() - KEPT_DAYS * DAY_MS
        stock.forget_claims()
        answers = self._engine.current.answers

        def post(done: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
            answers.when_committed(ActReport(done, failed))

        await committed(post)
        for source in stock.sources:
            try:
                await self._sweep_source(source, before)
            except BodyUnreadable as error:  # the unreadable message may be the manifest of these pieces
                log.warning("pieces_kept", source=source, error=str(error))

    async def _sweep_source(self, source: str, before: int | None) -> None:
        """Remove an institution's pieces that have a notice or were recorded before ``before``, None: only the former.

        Raises BodyUnreadable if a message of this institution cannot be read.
        """
        stock, answers = self._engine.current.core.pieces, self._engine.current.answers
        notices = frozenset(stock.notices)
        removable = {} if before is None else await self._by_document(source, before)
        if notices:
            by_document = await self._by_document(source)
            removable |= {document: brefs for document, brefs in by_document.items() if not notices.isdisjoint(brefs)}
        with_manifest = await self._documents(source) if removable else set()
        for document, brefs in removable.items():
            ended = stock.give_up(bref for bref in brefs if document not in with_manifest or bref in notices)
            if ended:
                log.warning("pieces_without_document", document=document, source=source, pieces=len(ended))
                answers.finish(ended)

    async def _by_document(self, source: str, before_ms: int | None = None) -> dict[str, list[int]]:
        """Return the rows of an institution's pieces and notices by document; with ``before_ms`` only earlier ones."""
        brefs: defaultdict[str, list[int]] = defaultdict(list)
        after = 0
        while page := await self._store.execute(views.arrived, source, after, PAGE, before_ms):
            for piece in page:
                brefs[document_of(piece)].append(piece.bref)
            after = page[-1].bref
        return dict(brefs)

    async def _documents(self, source: str) -> set[str]:
        documents: set[str] = set()
        after = 0
        while page := await self._store.execute(views.small_messages, source, MANIFEST_MAX, after, PAGE):
            documents |= _named_documents(page)
            after = page[-1].bref
        return documents


def document_of(piece: views.RecordedMessage) -> str:
    """Return the document of a recorded piece or notice; empty if it is unreadable."""
    try:
        return decode_envelope(Stored(piece.envelope, b"")).attributes.pieces.partition("/")[0]
    except SemqError:
        return ""


def _named_documents(page: Sequence[views.RecordedMessage]) -> set[str]:
    return {decode_envelope(Stored(message.envelope, b"")).attributes.pieces for message in page} - {""}
