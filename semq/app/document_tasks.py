"""Documents of an inbox, and events, that are handled concurrently, one task for each.

After a lost connection the node delivers an unsettled document or event again while its task still runs. The task
continues, and settles the last delivery, because an earlier one cannot be settled any more.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Callable, Coroutine
from functools import partial

from semq.app.client import Client
from semq.app.values import Document, DocumentEvent
from semq.errors import SemqError

log = logging.getLogger(__name__)


class DocumentTasks:
    """The tasks of one inbox. ``handle`` is called with the LK0 of a document, and has to settle ``last(lk0)``."""

    def __init__(self, handle: Callable[[str], Coroutine[object, object, None]]) -> None:
        self._handle = handle
        self._last: dict[str, Document] = {}  #: LK0 | last delivery of the document

    def last(self, lk0: str) -> Document:
        """Return the last delivery of a document whose task runs."""
        return self._last[lk0]

    async def run(self, documents: AsyncIterable[Document]) -> None:
        """Handle documents until the iteration ends, raises, or is cancelled; then cancel all tasks."""
        running: set[asyncio.Task[None]] = set()
        try:
            async for document in documents:
                is_known = document.lk0 in self._last
                self._last[document.lk0] = document
                if not is_known:
                    task = asyncio.create_task(self._run(document.lk0))
                    running.add(task)
                    task.add_done_callback(running.discard)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._last.clear()  # documents whose tasks had not begun

    async def _run(self, lk0: str) -> None:
        try:
            await self._handle(lk0)
        except Exception:
            log.exception("document %s was not handled; it stays unacknowledged", lk0)
        finally:
            del self._last[lk0]


class EventTasks:
    """The tasks of a queue of events. Events about one document are handled one after the other.

    ``DocumentEvent.id`` identifies an event that is delivered again; events without one count as different.
    """

    def __init__(self, handle: Callable[[DocumentEvent], Coroutine[object, object, None]]) -> None:
        """``handle`` is called with each event, which is acknowledged afterwards."""
        self._handle = handle
        self._deliveries: dict[str, DocumentEvent] = {}  #: by id, the last delivery of an event whose task runs
        self._last: dict[str, asyncio.Task[None]] = {}  #: by document, the task of its last event

    async def run(self, events: AsyncIterable[DocumentEvent]) -> None:
        """Handle events until the iteration ends, raises, or is cancelled; then cancel all tasks."""
        running: set[asyncio.Task[None]] = set()
        try:
            async for event in events:
                is_known = event.id in self._deliveries
                if event.id:
                    self._deliveries[event.id] = event
                if is_known:
                    continue
                document = event.token or event.lk0
                task = asyncio.create_task(self._run(event, self._last.get(document)))
                self._last[document] = task
                running.add(task)
                task.add_done_callback(partial(self._ended, running, document))
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._deliveries.clear()  # events whose tasks had not begun

    def _ended(self, running: set[asyncio.Task[None]], document: str, task: asyncio.Task[None]) -> None:
        running.discard(task)
        if self._last.get(document) is task:
            del self._last[document]

    async def _run(self, event: DocumentEvent, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:
                await asyncio.wait((before,))
            await self._handle(event)
            self._deliveries.get(event.id, event).ack()
        except Exception:
            log.exception("event %s was not handled; it stays unacknowledged", event.id)
        finally:
            self._deliveries.pop(event.id, None)


async def park(client: Client, document: Document, why: str) -> None:
    """Park a document with a reason, or without it if the node cannot store the reason. Raises AlreadyGone."""
    try:
        await client.request("failed.park", {"id": document.lk0, "error": why})
    except SemqError as fault:
        log.warning("%s: parked without its reason, which the node has not stored: %s", document.lk0, fault)
    await document.reject()
