"""Sending of pieces to the receiver's node, and then, when all pieces have arrived, of the manifest.

Each piece is a message of class 3, and is deleted when the receipt has arrived. Few pieces are under way to one node at
a time, so that other documents do not wait behind them (``window``). A piece whose message has not ended is not sent
again: a second message could arrive after the document is complete, and would stay at the receiver. The manifest waits
as a submission, and is released when no piece is left.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from msgspec import Struct

from local_node.doors.events import EventExchange
from local_node.doors.refused_submissions import refuse_open
from local_node.pieces.window import PieceWindow
from semq.broker.vhost import PreparedPublish
from semq.engine.core import apply_rare_changes
from semq.engine.errors import BodyUnreadable, NotThere, PieceNotDelivered
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Accepted, AppEvent, Submission
from semq.engine.sender.endings import REFUSALS
from semq.engine.sender.scheduling import release_early
from semq.engine.stored_envelopes import decode_envelope
from semq.errors import BadInput, SemqError, Unavailable, semq_error
from semq.service.admin import committed
from semq.service.engine_handle import EngineHandle
from semq.store.postgres.store import PostgresStore
from semq.store.rows import PieceGone, Stored
from semq.store.views import pieces as views
from semq.store.work import Failed
from semq.umx_t.address import Address
from semq.umx_t.envelope import Attributes, Envelope
from semq.umx_t.pieces import PIECES_USER, PieceName

DOCUMENTS_MAX = 16  # documents to one node whose pieces are in transit at the same time
RETRY_S = 1.0  # pause after a temporary refusal
QUIET_S = 1.0  # time without other messages, after which more pieces may be in transit
# Attempts, RETRY_S apart, to send a piece again that was refused because of an old key; the new key arrives meanwhile.
OLD_KEY_RETRIES_MAX = 60
DELIVERED, FAILED = "delivered", "failed"
log = structlog.get_logger("semq.pieces")


class ReportedEvent(Struct):
    """An event about a piece or a failed manifest; ``report`` is called with it after the commit."""

    report: Callable[[AppEvent], None]
    event: AppEvent
    prepared: PreparedPublish | None = None  #: the event for applications; None: not published

    @property
    def ops(self) -> Sequence[object]:
        return self.prepared.ops if self.prepared else ()

    def commit(self) -> None:
        if self.prepared:
            self.prepared.commit()
        self.report(self.event)


class EventsWithPieces:
    """The engine's ``Events``: events about pieces stay in this node, others go to the applications."""

    def __init__(
        self, events: EventExchange, report: Callable[[AppEvent], None], failed: Callable[[AppEvent], None]
    ) -> None:
        """After the commit, ``report`` gets events about pieces, ``failed`` those about failed manifests."""
        self._events = events
        self._report = report
        self._failed = failed

    def prepare(self, event: AppEvent) -> Any:
        if event.target is not None and event.target.user == PIECES_USER:
            return ReportedEvent(self._report, event)
        prepared = self._events.prepare(event)
        is_failed_manifest = event.kind == FAILED and bool(event.document)
        return ReportedEvent(self._failed, event, prepared) if is_failed_manifest else prepared

    def publish(self, prepared: Any) -> None:
        self._events.publish(prepared)


class PieceTransfer(Struct):
    """A document whose pieces are being sent."""

    number: int  #: number of the submission
    envelope: Envelope


class Transfers:
    """The documents in pieces that this node sends."""

    def __init__(self, engine: EngineHandle[LocalEngine], store: PostgresStore, released: Callable[[], None]) -> None:
        """``released`` is called when a manifest may be accepted."""
        self._engine = engine
        self._store = store
        self._released = released
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._under_way: dict[str, str] = {}  #: by name of a piece whose message has not ended: LK0 of the message
        self._names: dict[str, str] = {}  #: by LK0 of a piece's message: name of the piece
        #: by LK0 of a piece's message: the future for the event about its end
        self._awaited: dict[str, asyncio.Future[AppEvent]] = {}
        #: LK0s of pieces that ended before ``_under_way`` was filled from the store; None afterwards
        self._early: set[str] | None = None
        self._windows: defaultdict[str, PieceWindow] = defaultdict(lambda: PieceWindow(self._has_others))
        self._submissions = 0  #: pieces submitted with this engine
        self._others = (0, 0.0)  #: number of other messages, and when it last changed
        self._searching: asyncio.Task[None] | None = None
        self._ended_lately: set[int] = set()  #: documents whose transfer has ended since the latest search began

    @property
    def documents(self) -> set[int]:
        return set(self._tasks)

    def begin(self) -> None:
        """Begin again with a new engine."""
        self.halt()
        self.search()

    def halt(self) -> None:
        """End all work, because the engine is being replaced. A piece that was submitted to the former one may be
        stored: it must not be submitted to the new one before the search for stored pieces."""
        for task in [*self._tasks.values(), *filter(None, [self._searching])]:
            task.cancel()
        for table in (self._tasks, self._under_way, self._names, self._awaited, self._windows):
            table.clear()
        self._early, self._searching = set(), None
        self._submissions, self._others = 0, (0, 0.0)

    async def stop(self) -> None:
        tasks = [*self._tasks.values(), *filter(None, [self._searching])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def search(self) -> None:
        """Find documents that wait for pieces, unless a search is under way."""
        if self._searching is None or self._searching.done():
            self._searching = asyncio.get_running_loop().create_task(self._search(), name="pieces")

    def note_event(self, event: AppEvent) -> None:
        if event.kind == DELIVERED or event.outcome:
            lk0 = str(event.lk0)
            if self._early is not None:
                self._early.add(lk0)
            name = self._names.pop(lk0, "")
            if self._under_way.get(name) == lk0:  # a second message may have the same name
                del self._under_way[name]
            ended = self._awaited.pop(lk0, None)
            if ended is not None and not ended.done():
                ended.set_result(event)

    async def _search(self) -> None:
        try:
            self._ended_lately.clear()
            waiting = dict(await self._store.execute(views.transfers))
            if waiting and self._early is not None:
                self._note_under_way_at_start(await self._store.execute(views.under_way))
        except Unavailable:
            return
        for number in self._tasks.keys() - waiting.keys():
            self._tasks[number].cancel()  # withdrawn
        await self._start_first(waiting)

    async def _start_first(self, waiting: dict[int, bytes]) -> None:
        """Start the first documents to each node, unless they are in transit."""
        counts: Counter[Address] = Counter()
        for number, envelope in waiting.items():
            if number in self._ended_lately:
                continue
            try:
                transfer = PieceTransfer(number, decode_envelope(Stored(envelope, b"")))
            except BodyUnreadable as error:
                with suppress(Unavailable):  # the next search finds it
                    await self._refuse(number, error)
                continue
            counts[transfer.envelope.target.node] += 1
            if counts[transfer.envelope.target.node] <= DOCUMENTS_MAX and number not in self._tasks:
                self._start(transfer)

    def _note_under_way_at_start(self, pieces: Iterable[tuple[str, bytes]]) -> None:
        early, self._early = self._early or set(), None
        for lk0, envelope in pieces:
            with suppress(BodyUnreadable):  # the piece is sent again
                if lk0 not in early:
                    self._note_under_way(decode_envelope(Stored(envelope, b"")).attributes.pieces, lk0)

    def _note_under_way(self, name: str, lk0: str) -> None:
        self._under_way[name], self._names[lk0] = lk0, name

    def _start(self, transfer: PieceTransfer) -> None:
        task = asyncio.get_running_loop().create_task(self._transfer(transfer), name=f"pieces of {transfer.number}")
        self._tasks[transfer.number] = task
        task.add_done_callback(lambda done: self._note_end(transfer.number, done))

    def _note_end(self, number: int, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(number) is task:
            del self._tasks[number]
            self._ended_lately.add(number)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("transfer_failed", number=number, error=str(error))

    async def _transfer(self, transfer: PieceTransfer) -> None:
        """Send all pieces of a document, then release the manifest, or refuse the document.

        Return only after the commit: until then a search finds the document, and would begin another transfer.
        """
        refusal: SemqError | None = None
        is_sent = False
        try:
            async with asyncio.TaskGroup() as group:
                await self._send_all(transfer, group)
        except* BadInput as errors:
            refusal = errors.exceptions[0] if isinstance(errors.exceptions[0], SemqError) else None
        except* Unavailable as errors:
            log.warning("pieces_wait", number=transfer.number, error=str(errors.exceptions[0]))
        else:
            is_sent = True
        with suppress(NotThere, Unavailable):  # the document was withdrawn, or the next search finds it
            if refusal is not None:
                await self._refuse(transfer.number, refusal)
            elif is_sent:
                await self._release(transfer.number)

    async def _release(self, number: int) -> None:
        core = self._engine.current.core

        def post(done: Callable[[None], None], failed: Failed) -> None:
            core.post(release_early(number, lambda: done(None)), failed=failed)

        await committed(post)
        self._released()

    async def _refuse(self, number: int, error: SemqError) -> None:
        core = self._engine.current.core

        def post(done: Callable[[None], None], failed: Failed) -> None:
            core.post(refuse_open(core, number, error, done), failed=failed)

        await committed(post)

    async def _send_all(self, transfer: PieceTransfer, group: asyncio.TaskGroup) -> None:
        window = self._windows[str(transfer.envelope.target.node)]
        for number in await self._store.execute(views.staged_numbers, transfer.number):
            is_alone = await window.enter()
            # A callback, because a task that is cancelled before its first step runs no ``finally``.
            sending = group.create_task(self._send(transfer, number))
            sending.add_done_callback(partial(_leave_window, window, is_alone))

    async def _send(self, transfer: PieceTransfer, number: int) -> float:
        """Send one piece, and again after temporary refusals; return the seconds until the receipt, 0 if it is gone.

        Raises BadInput if the piece is refused; PieceNotDelivered if the message ends undelivered.
        """
        event: AppEvent | None = None
        retries_left, began = OLD_KEY_RETRIES_MAX, 0.0
        while event is None:
            try:
                ended = await self._begin_piece(transfer, number)
                if ended is None:
                    return 0.0
                began = self._engine.current.core.now()
                event = await ended
            except Unavailable as error:
                log.info("piece_waits", number=transfer.number, piece=number, error=str(error))
                await asyncio.sleep(RETRY_S)
                continue
            if event.reason is not None and event.reason[0] in REFUSALS and retries_left:
                event = None  # the next attempt is sealed or signed with the present keys
                retries_left -= 1
                await asyncio.sleep(RETRY_S)
        took_s = self._engine.current.core.now() - began
        if event.kind != DELIVERED:
            code, text = event.reason or ("", "")
            raise PieceNotDelivered(piece=number, outcome=event.outcome, code=code, text=text)
        self._engine.current.core.post(apply_rare_changes([PieceGone(transfer.number, number)]), later=True)
        return took_s

    def _has_others(self) -> bool:
        """Return whether messages other than the pieces sent here were accepted or received in the last ``QUIET_S``."""
        core = self._engine.current.core
        counts, now = core.counters.counts, core.now()
        others = counts.get("accepted", 0) + counts.get("received", 0) - self._submissions
        if others != self._others[0]:
            self._others = others, now
        return now - self._others[1] < QUIET_S

    async def _begin_piece(self, transfer: PieceTransfer, number: int) -> "asyncio.Future[AppEvent] | None":
        """Submit a piece, unless its message is under way; return a future for the end or refusal of the message.

        Return None if the piece is gone: delivered before a restart of the transfer, or the document was withdrawn. The
        payload is not kept, because pieces may wait for many nodes that are away.
        """
        name = str(PieceName(transfer.envelope.attributes.pieces, number))
        if (lk0 := self._under_way.get(name)) is not None:
            ended = self._awaited[lk0] = asyncio.get_running_loop().create_future()
            return ended
        stored = await self._store.execute(views.staged, transfer.number, number)
        if stored is None:
            return None
        return self._submit(transfer, name, self._store.locking.unlock_piece(transfer.number, number, stored))

    def _submit(self, transfer: PieceTransfer, name: str, payload: bytes) -> "asyncio.Future[AppEvent]":
        """Submit a piece; return a future for the end or refusal of its message."""
        envelope, of_document = transfer.envelope, transfer.envelope.attributes
        ended: asyncio.Future[AppEvent] = asyncio.get_running_loop().create_future()

        def done(accepted: Accepted) -> None:
            self._submissions += 1
            self._awaited[str(accepted.lk0)] = ended
            self._note_under_way(name, str(accepted.lk0))

        def failed(error: Exception) -> None:
            if not ended.done():
                ended.set_exception(semq_error(error))

        attributes = attributes_of_piece(of_document, name)
        target = Address(envelope.target.type, envelope.target.id, PIECES_USER)
        self._engine.current.submit([Submission(target, attributes, payload, done, failed, sender=envelope.sender)])
        return ended


def attributes_of_piece(of_document: Attributes, name: str) -> Attributes:
    """Return the attributes of a piece."""
    # Without the key, so that a search by key finds the document itself.
    return Attributes(
        app_key=of_document.app_key._replace(key=""), encrypt=of_document.encrypt, priority=of_document.priority,
        expires_at=of_document.expires_at, pieces=name,
    )  # fmt: skip


def _leave_window(window: PieceWindow, was_alone: bool, sending: "asyncio.Task[float]") -> None:
    is_measured = not sending.cancelled() and sending.exception() is None
    window.leave(sending.result() if is_measured else 0.0, was_alone=was_alone)
