"""Documents of an inbox as files: note (NAME.semq.json) and file are forced to disk, then the document is acknowledged.

A document that is delivered again after a crash replaces its own file, which the locator in the note identifies. While
a folder cannot be written, documents wait at the node. A document that the folder cannot take although it takes others,
or for which its file system is too small, is set aside (PARKED) with the reason. Until then it takes no place of
others, up to ``WAITING_MAX``: the documents of one sender, whose folder cannot be written, must not stop those of all.
"""

import asyncio
import errno
from collections.abc import Callable
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import NamedTuple

import structlog

from semq.app import AlreadyGone, Client, Document
from semq.app.document_tasks import DocumentTasks, park
from semq.errors import SemqError
from semq.folders.errors import DocumentNotWritten, LargerThanDisk
from semq.folders.layout import Layout, file_name_for, is_present, marked, read_note
from semq.foreign_text import shown
from semq.service.companion.section_states import SectionStates
from semq.store.files import room
from semq.umx_t import retry
from semq.umx_t.address import parse_address
from semq.umx_t.errors import BadAddress
from semq.umx_t.short_name import short_name

log = structlog.get_logger("semq.folders")

PREFETCH = 32  # documents that are written at the same time, at most
WAITING_MAX, WAITING_BYTES = 512, 64 << 20  # documents that wait in addition to these; bytes of their bodies
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 30.0  # between attempts while the folder cannot be written
ATTEMPTS_MAX = 12  # failures after which a document is set aside, if as many others were written meanwhile
ADVICE = "Free disk space, or correct the rights of the folder; until then the document waits at the node."


class _Writing(NamedTuple):
    """A thread that writes a document. It goes on when the task that started it is cancelled."""

    lk0: str
    ended: asyncio.Future[None]


class Incoming:
    """Writes the documents of one inbox into the folder ``in`` of one root."""

    def __init__(self, layout: Layout, user: str, client: Client, states: SectionStates) -> None:
        self._layout = layout
        self._user = user
        self._client = client
        self._states = states
        self._section = shown(str(layout.arrived))
        self._being_written: dict[Path, _Writing] = {}
        self._waiting: dict[str, int] = {}  #: LK0s and sizes of documents that could not be written yet
        self._make_room: Callable[[int], None] = lambda waiting: None
        self._written = 0
        self._tasks = DocumentTasks(self._deliver)

    async def run(self, on_success: Callable[[], None]) -> None:
        """Write documents until cancelled; ``on_success`` is called when the inbox is open.

        Raises NodeUnreachable, LoginRefused, RefusedByNode.
        """
        async with self._client.receive(self._user, prefetch=PREFETCH) as documents:
            on_success()
            self._make_room = documents.make_room
            await self._tasks.run(documents)

    async def _deliver(self, lk0: str) -> None:
        """Write and acknowledge a document, or set it aside. Repeat until one succeeds, or the connection has ended."""
        pauses, attempts, written_before = retry.growing(PAUSE_S_MIN, PAUSE_S_MAX), 0, self._written
        try:
            while not self._tasks.last(lk0).is_gone:
                attempts += 1
                try:
                    await self._write(self._tasks.last(lk0))
                except OSError as error:
                    why = await self._why_to_set_aside(lk0, error, attempts, self._written - written_before)
                    if why is not None:
                        await self._set_aside(lk0, why)
                        return
                    await self._wait(lk0, error, next(pauses))
                else:
                    self._written += 1
                    await self._tasks.last(lk0).ack()
                    return
        except AlreadyGone:
            return  # the document is delivered again, and replaces its file
        finally:
            if self._waiting.pop(lk0, None) is not None:
                self._make_room(self._beside())
            if not self._waiting:
                self._states.succeeded(self._section)

    async def _wait(self, lk0: str, error: OSError, pause_s: float) -> None:
        facts = {"file": error.filename, "error": error.strerror, "again_in_s": pause_s, "advice": ADVICE}
        log.error("document_not_written", document=lk0, **facts)
        if lk0 not in self._waiting:
            self._waiting[lk0] = self._tasks.last(lk0).size
            self._make_room(self._beside())
        self._states.failed(self._section, error)
        await asyncio.sleep(pause_s)

    def _beside(self) -> int:
        """Return the number of waiting documents that take no place of others."""
        sizes = islice(accumulate(self._waiting.values()), WAITING_MAX)
        return sum(size <= WAITING_BYTES for size in sizes)

    async def _why_to_set_aside(self, lk0: str, error: OSError, attempts: int, written: int) -> SemqError | None:
        """Return the reason to set a document aside; None: write it again. ``written``: other documents, meanwhile."""
        size = self._tasks.last(lk0).size
        if error.errno == errno.ENOSPC:
            with suppress(OSError):
                _, total = await asyncio.to_thread(room, self._layout.arrived)
                if size > total > 0:
                    return LargerThanDisk(file=error.filename, size=size, size_max=total)
        if attempts >= ATTEMPTS_MAX and written >= ATTEMPTS_MAX:
            return DocumentNotWritten(file=error.filename, fault=error.strerror, attempts=attempts)
        return None

    async def _set_aside(self, lk0: str, why: SemqError) -> None:
        log.error("document_set_aside", document=lk0, error=str(why))
        self._states.count(self._section, "set_aside")
        await park(self._client, self._tasks.last(lk0), why.advice())

    async def _write(self, document: Document) -> None:
        """Write a document; first wait for a thread that still writes an earlier delivery of it. Raises OSError."""
        while (path := self._path_for(document)) in self._being_written:
            await asyncio.wait((self._being_written[path].ended,))
        ended = asyncio.ensure_future(asyncio.to_thread(self._write_at, path, document))
        self._being_written[path] = _Writing(document.lk0, ended)
        ended.add_done_callback(lambda _: self._being_written.pop(path))
        await asyncio.shield(ended)  # the path is in use until the thread has ended, also if this task is cancelled

    def _write_at(self, path: Path, document: Document) -> None:
        self._layout.write_document(path, document.blocks(), document.size, _note(document))

    def _path_for(self, document: Document) -> Path:
        """Return a path for a document, with the short name added if another document has the plain path.

        Raises OSError.
        """
        plain = self._layout.arrived / _sender_folder(document.source)
        for part in document.app_key[1:3]:
            plain = _folder(plain / file_name_for(part)) if part else plain
        name = short_name(document.lk0)
        file_name = document.app_key.key.replace("\\", "/").rstrip("/").rpartition("/")[2]
        plain = plain / (file_name_for(file_name) if file_name else name)
        return plain if self._may_have(plain, document.lk0) else marked(plain, name)

    def _may_have(self, path: Path, lk0: str) -> bool:
        """Whether a path is free, or has the file of this document from an earlier delivery. Raises OSError."""
        if path in self._being_written:
            return self._being_written[path].lk0 == lk0
        return read_note(path).get("lk0") == lk0 or not is_present(path)


def _folder(path: Path) -> Path:
    """Return the path of a folder, with ``~folder`` added if a file has this path. Raises OSError."""
    is_file = is_present(path) and not path.is_dir()
    return path.with_name(f"{path.name}~folder") if is_file else path


def _note(document: Document) -> dict[str, object]:
    more = {"name": short_name(document.lk0), "size": document.size, "is_intact": document.is_intact}
    return document.described() | more


def _sender_folder(text: str) -> str:
    """Return the folder of a sender: ``10008``, ``10008@buyer`` for a user, ``TYPE.ID`` for other types of node."""
    try:
        address = parse_address(text)
    except BadAddress:
        return file_name_for(text) or "unknown"
    node = address.id if address.type == 1 else f"{address.type}.{address.id}"
    return f"{node}@{address.user}" if address.user else node
