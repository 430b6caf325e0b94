"""Documents of an inbox as files: each is written with its note, forced to disk, and only then acknowledged.

A document that is delivered again after a crash replaces its own file, which is identified by the locator in its
note. While a folder cannot be written, documents wait at the node, and the log reports it.
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import structlog

from semq.app import AlreadyGone, Client, Document
from semq.app.document_tasks import DocumentTasks
from semq.folders.layout import Layout, fit, marked, read_note, write_note
from semq.foreign_text import shown
from semq.service.companion.section_states import SectionStates
from semq.store.files import write_blocks_safely
from semq.umx_t.address import parse_address
from semq.umx_t.errors import BadAddress
from semq.umx_t.short_name import short_name

log = structlog.get_logger("semq.folders")

PREFETCH = 32  # documents that are written at the same time
AGAIN_S_MIN, AGAIN_S_MAX = 1.0, 30.0  # pause while the folder cannot be written


class Incoming:
    """Writes the documents of one inbox into one root."""

    def __init__(self, layout: Layout, user: str, client: Client, states: SectionStates) -> None:
        self._layout = layout
        self._user = user
        self._client = client
        self._states = states
        self._section = shown(str(layout.arrived))
        self._taken: dict[Path, str] = {}  #: names that are being written, each with its LK0
        self._tasks = DocumentTasks(self._keep)

    async def run(self, works: Callable[[], None]) -> None:
        """Write until cancelled. Raises NodeUnreachable, LoginRefused, RefusedByNode."""
        async with self._client.receive(self._user, prefetch=PREFETCH) as documents:
            works()
            await self._tasks.run(documents)

    async def _keep(self, lk0: str) -> None:
        again_s = AGAIN_S_MIN
        while not self._tasks.last(lk0).is_gone:
            try:
                await self._write(self._tasks.last(lk0))
                self._states.succeeded(self._section)
                await self._tasks.last(lk0).ack()
                return
            except AlreadyGone:
                return  # it is delivered again, and replaces its file
            except OSError as error:
                facts = {"file": error.filename, "error": error.strerror, "again_in_s": again_s}
                log.error("document_not_written", document=lk0, **facts)
                self._states.failed(self._section, error)
                await asyncio.sleep(again_s)
                again_s = min(again_s * 2, AGAIN_S_MAX)

    async def _write(self, document: Document) -> None:
        """Write a document under a name that no other document uses. Raises OSError."""
        path = self._reserve(document)
        try:
            await asyncio.to_thread(_write, path, document)
        finally:
            del self._taken[path]

    def _reserve(self, document: Document) -> Path:
        """Return the path of a document: by its key, and with its short name if another document has that path."""
        plain = self._layout.arrived / _source(document.source)
        for part in document.app_key[1:3]:
            plain = _folder(plain / fit(part)) if part else plain
        name = short_name(document.lk0)
        last = document.app_key.key.replace("\\", "/").rstrip("/").rpartition("/")[2]
        plain = plain / (fit(last) if last else name)
        path = plain if self._is_its_own(plain, document.lk0) else marked(plain, name)
        self._taken[path] = document.lk0
        return path

    def _is_its_own(self, path: Path, lk0: str) -> bool:
        if path in self._taken:
            return self._taken[path] == lk0
        return read_note(path).get("lk0") == lk0 or not os.path.lexists(path)


def _folder(path: Path) -> Path:
    """Return the path of a folder; another name if a document has this one, because senders choose names of
    documents.
    """
    is_taken = os.path.lexists(path) and not path.is_dir()
    return path.with_name(f"{path.name}~folder") if is_taken else path


def _write(path: Path, document: Document) -> None:
    write_note(path, _note(document))
    write_blocks_safely(path, document.blocks())


def _note(document: Document) -> dict[str, Any]:
    own = {"name": short_name(document.lk0), "size": document.size, "is_intact": document.is_intact}
    return document.described() | own


def _source(text: str) -> str:
    """Return the folder of a sender: ``10008``, or ``10008@buyer`` for a user."""
    try:
        address = parse_address(text)
    except BadAddress:
        return fit(text) or "unknown"
    node = address.id if address.type == 1 else f"{address.type}.{address.id}"
    return f"{node}@{address.user}" if address.user else node
