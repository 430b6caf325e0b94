"""Files in ``out``: each is sent once it is complete, then moved.

A file is complete when size and time have not changed for ``settle_s``. Its token is made of its path, its inode, its
time and its content: a file that was sent and not yet moved when the process died is sent again with the same token,
and the node accepts it once. The note in ``sent`` is written before the file is moved there.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import structlog

from semq.app import Client, RefusedByNode, Sent
from semq.app.content_type import content_type_of
from semq.clock import Clock
from semq.config.sections import Folder
from semq.errors import BadInput, SemqError, Unavailable
from semq.folders.errors import FileTooLarge, FileUnreadable
from semq.folders.layout import Layout, Offered

log = structlog.get_logger("semq.folders")

LOOKED_AT_MAX = 20_000  # files in one look; the others wait for the next one
UNDER_WAY_MAX = 32  # files that are sent at once
UNDER_WAY_BYTES = 64 << 20  # and how large all of them together, unless it is one alone
AGAIN_S_MIN, AGAIN_S_MAX = 1.0, 30.0  # pause while the node is away
LOOK_S = 30.0  # the folder is looked at so often even if no change is reported


class _Seen(NamedTuple):
    """A file that is not known to be complete."""

    file: Offered
    since: float  #: monotonic seconds: unchanged since


class Outgoing:
    """Sends the files of one root."""

    def __init__(self, layout: Layout, settings: Folder, document_max: int, client: Client, clock: Clock) -> None:
        """``document_max``: bytes of the largest document that the node accepts."""
        self._layout = layout
        self._settings = settings
        self._document_max = document_max
        self._client = client
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._stuck: set[Offered] = set()  #: could not be moved: said once
        self.accepted = self.refused = 0

    async def run(self, changes: AsyncIterator[object]) -> None:
        """Send until cancelled. ``changes`` yields when something in ``out`` may have changed.

        Raises LoginRefused, and what else makes it useless to go on.
        """
        changed = asyncio.ensure_future(anext(changes, None))
        try:
            while True:
                wait_s = await self._look()
                await asyncio.wait((changed,), timeout=wait_s)
                if changed.done():
                    changed.result()
                    changed = asyncio.ensure_future(anext(changes, None))
        finally:
            changed.cancel()

    async def _look(self) -> float:
        """Send what is complete; return in how many seconds to look again."""
        offered = await asyncio.to_thread(self._layout.offered, LOOKED_AT_MAX)
        complete = self._complete(offered)
        again_s = AGAIN_S_MIN
        while complete:
            try:
                await self._send_all(complete)
                break
            except Unavailable as error:
                log.warning("folder_waits", root=str(self._layout.root), error=str(error), again_in_s=again_s)
                await asyncio.sleep(again_s)
                again_s = min(again_s * 2, AGAIN_S_MAX)
                complete = [file for file in complete if file.path.exists()]
        if len(offered) == LOOKED_AT_MAX and complete:
            return 0.0
        now = self._clock.monotonic()
        due = min((seen.since + self._settings.settle_s - now for seen in self._seen.values()), default=LOOK_S)
        return max(due, 0.05)

    def _complete(self, offered: Iterable[Offered]) -> list[Offered]:
        """Return the files that have not changed for long enough; remember the others."""
        now, before = self._clock.monotonic(), self._seen
        self._seen, complete = {}, []
        for file in offered:
            if file in self._stuck:
                continue
            seen = before.get(str(file.path))
            if seen is None or seen.file != file:
                self._seen[str(file.path)] = _Seen(file, now)
            elif now - seen.since < self._settings.settle_s:
                self._seen[str(file.path)] = seen
            else:
                complete.append(file)
        return complete

    async def _send_all(self, files: list[Offered]) -> None:
        """Send files, several at once, within bounds of number and size. Raises Unavailable at the first that waits."""
        running: dict[asyncio.Task[None], int] = {}
        try:
            for file in files:
                while running and _is_full(running, file.size):
                    await _one_of(running)
                running[asyncio.create_task(self._send(file))] = file.size
            while running:
                await _one_of(running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _send(self, file: Offered) -> None:
        """Send one file and move it. Raises Unavailable; what the node refuses goes to ``failed``."""
        try:
            sent = await self._submit(file)
        except (RefusedByNode, BadInput) as error:
            self.refused += 1
            await self._move(file, {"code": error.code, "reason": str(error), "remedy": error.remedy}, None)
        else:
            if sent is not None:
                self.accepted += 1
                await self._move(file, {"name": sent.name, "lk0": sent.lk0, "digest": sent.digest}, sent)

    async def _submit(self, file: Offered) -> Sent | None:
        """Hand a file over; None if it has changed or gone meanwhile. Raises BadInput, Unavailable."""
        if file.size > self._document_max:
            raise FileTooLarge(size=file.size, size_max=self._document_max)
        route = self._layout.route(file.path)
        try:
            body = await asyncio.to_thread(file.path.read_bytes)
            status = await asyncio.to_thread(file.path.stat)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FileUnreadable(fault=error.strerror) from error
        if (status.st_size, status.st_mtime_ns, status.st_ino) != file[1:] or len(body) != file.size:
            return None  # looked at again: it is not complete
        return await self._client.send(
            route.target,
            body,
            app_key=route.app_key,
            save_fwd=self._settings.save_fwd,
            encrypt=self._settings.encrypt,
            content_type=content_type_of(file.path.name, body),
            token=_token(file, body),
        )

    async def _move(self, file: Offered, note: Mapping[str, object], sent: Sent | None) -> None:
        """Move a file out of ``out``; one that cannot be moved is left alone until it changes, and reported."""
        layout = self._layout
        try:
            if sent is not None and not self._settings.keep_sent:
                await asyncio.to_thread(file.path.unlink, missing_ok=True)
            else:
                folder, mark = (layout.sent, sent.name) if sent is not None else (layout.failed, "")
                goal = await asyncio.to_thread(layout.move, file.path, folder, note, mark)
                if sent is None:
                    log.error("file_refused", file=str(goal), **note)
        except OSError as error:
            self._stuck.add(file)
            log.error("file_not_moved", file=str(file.path), error=error.strerror, **note)


def _is_full(running: Mapping[asyncio.Task[None], int], size: int) -> bool:
    return len(running) >= UNDER_WAY_MAX or sum(running.values()) + size > UNDER_WAY_BYTES


async def _one_of(running: dict[asyncio.Task[None], int]) -> None:
    """Wait until one has ended. Raises what it raised."""
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        del running[task]
    for task in done:
        error = task.exception()
        if isinstance(error, SemqError):
            raise error
        task.result()


def _token(file: Offered, body: bytes) -> str:
    """Return what makes a repeat recognisable after a crash: this file, with this content."""
    digest = sha256(body)
    digest.update(f"\n{file.path}\n{file.inode}\n{file.modified_ns}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:40]
