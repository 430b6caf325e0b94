"""Files in ``out``: each is sent once it is complete, then moved.

A file is complete when size and times have not changed for ``settle_s``. Its token is computed from its path, times
and content. A file that was sent but not moved before a crash is sent again with the same token, and the node accepts
it once. A file that was moved back to ``out`` has another token, because its status has changed. The note in ``sent``
is written before the file is moved there. While a partner's quota is reached, only the files for it wait.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import structlog

from semq.app import Client, NodeBusy, RefusedByNode, Sent
from semq.app.content_type import content_type_of
from semq.clock import Clock
from semq.config.sections import FolderSection
from semq.errors import BadInput, SemqError, Unavailable
from semq.folders.content import FileChanged, content_of
from semq.folders.errors import FileTooLarge, FileUnreadable
from semq.folders.layout import Layout, Offered, note_of
from semq.foreign_text import shown
from semq.service.companion.section_states import SectionStates
from semq.umx_t import retry

log = structlog.get_logger("semq.folders")

COMPARED_MAX = 20_000  # files of one search; the others wait for the next one
UNDER_WAY_MAX = 32  # files that are sent at the same time, each with at most 1 MiB in memory
AGAIN_S_MIN, AGAIN_S_MAX = 1.0, 30.0  # pause while the node is unavailable, or accepts no documents for a target
SEARCH_S = 30.0  # longest time between two searches, also without a reported change


class _Seen(NamedTuple):
    """A file that is not known to be complete."""

    file: Offered
    since: float  #: monotonic seconds: unchanged since


class _Held(NamedTuple):
    """A target for which the node accepts no documents at present."""

    until: float  #: monotonic seconds
    failures: int


class Outgoing:
    """Sends the files of one root."""

    def __init__(
        self,
        layout: Layout,
        settings: FolderSection,
        document_max: int,
        client: Client,
        clock: Clock,
        states: SectionStates,
    ) -> None:
        """``document_max``: bytes of the largest document that the node accepts."""
        self._states = states
        self._section = shown(str(layout.out))
        self._layout = layout
        self._settings = settings
        self._document_max = document_max
        self._client = client
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._held: dict[str, _Held] = {}  #: by the name of the folder in ``out``
        self._unmoved: dict[Offered, tuple[Mapping[str, object], Sent | None]] = {}  #: reported, and tried again
        self._moved_at = clock.monotonic()
        self.accepted = self.refused = 0

    async def run(self, changes: AsyncIterator[object]) -> None:
        """Send until cancelled. ``changes`` yields when something in ``out`` may have changed.

        Raises LoginRefused and other permanent errors.
        """
        changed = asyncio.ensure_future(self._change(changes))
        try:
            while True:
                wait_s = await self._search()
                await asyncio.wait((changed,), timeout=wait_s)
                if changed.done():
                    changed.result()
                    changed = asyncio.ensure_future(self._change(changes))
        finally:
            changed.cancel()

    async def _change(self, changes: AsyncIterator[object]) -> None:
        """Wait for a change. If the system reports none (too many watches), wait forever, because a search follows
        every SEARCH_S.
        """
        try:
            await anext(changes)
        except (OSError, RuntimeError, StopAsyncIteration) as error:
            log.warning("changes_not_reported", root=str(self._layout.root), error=str(error), search_s=SEARCH_S)
            await asyncio.Event().wait()

    async def _search(self) -> float:
        """Send complete files; return the seconds until the next search."""
        await self._move_again()
        if not self._unmoved:
            self._states.succeeded(self._section)
        offered = await asyncio.to_thread(self._layout.offered, COMPARED_MAX, self._targets_held())
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
        if len(offered) == COMPARED_MAX and complete:
            return 0.0
        now = self._clock.monotonic()
        due = [seen.since + self._settings.settle_s for seen in self._seen.values()]
        due += [held.until for held in self._held.values() if held.until > now]
        return max(min(due, default=now + SEARCH_S) - now, 0.05)

    def _targets_held(self) -> frozenset[str]:
        now = self._clock.monotonic()
        return frozenset(target for target, held in self._held.items() if held.until > now)

    def _complete(self, offered: Iterable[Offered]) -> list[Offered]:
        """Return the files that have not changed for long enough; remember the others."""
        now, before = self._clock.monotonic(), self._seen
        self._seen, complete = {}, []
        for file in offered:
            if file in self._unmoved:
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
        """Send files, several in parallel. Raises Unavailable at the first that waits."""
        running: set[asyncio.Task[None]] = set()
        try:
            for file in files:
                if len(running) >= UNDER_WAY_MAX:
                    await _one_of(running)
                running.add(asyncio.create_task(self._send(file)))
            while running:
                await _one_of(running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _send(self, file: Offered) -> None:
        """Send one file and move it. Raises Unavailable; what the node refuses goes to ``failed``."""
        target = file.path.relative_to(self._layout.out).parts[0]
        if target in self._targets_held():
            return
        try:
            sent = await self._submit(file)
            self._held.pop(target, None)
        except NodeBusy as error:
            self._hold(target, error)
        except (RefusedByNode, BadInput) as error:
            self.refused += 1
            await self._move(file, {"code": error.code, "reason": str(error), "remedy": error.remedy}, None)
        else:
            if sent is not None:
                self.accepted += 1
                note = {"name": sent.name, "lk0": sent.lk0, "token": sent.token, "digest": sent.digest}
                await self._move(file, note, sent)

    def _hold(self, target: str, error: NodeBusy) -> None:
        """Delay the files for a target; several answers to files under way at the same time count as one."""
        if target in self._targets_held():
            return
        failures = self._held[target].failures + 1 if target in self._held else 1
        pause_s = retry.backoff(failures, AGAIN_S_MIN, AGAIN_S_MAX, self._clock.random())
        self._held[target] = _Held(self._clock.monotonic() + pause_s, failures)
        log.warning("target_waits", target=target, error=str(error), again_in_s=round(pause_s, 1))

    async def _submit(self, file: Offered) -> Sent | None:
        """Submit a file; None if it has changed or was removed meanwhile. Raises BadInput, Unavailable."""
        if file.size > self._document_max:
            raise FileTooLarge(size=file.size, size_max=self._document_max)
        route = self._layout.route(file.path)
        try:
            body, beginning, digest = await asyncio.to_thread(content_of, file)
        except (FileNotFoundError, FileChanged):
            return None  # read again later: it is not complete
        except OSError as error:
            raise FileUnreadable(fault=error.strerror) from error
        try:
            return await self._client.send(
                route.target,
                body,
                app_key=route.app_key,
                save_fwd=self._settings.save_fwd,
                encrypt=self._settings.encrypt,
                content_type=content_type_of(file.path.name, beginning),
                token=_token(file, digest),
            )
        except FileChanged:
            return None
        except OSError as error:
            raise FileUnreadable(fault=error.strerror) from error

    async def _move(self, file: Offered, note: Mapping[str, object], sent: Sent | None) -> None:
        """Move a file out of ``out``; one that cannot be moved is reported once, and tried again every SEARCH_S."""
        layout, is_new = self._layout, self._unmoved.pop(file, None) is None
        folder, mark = (layout.sent, sent.name) if sent is not None else (layout.failed, "")
        try:
            goal = await asyncio.to_thread(layout.move, file.path, folder, note, mark, file)
            if goal is None:
                log.warning("file_replaced", file=str(file.path), text="the new file is sent, too", **note)
            elif sent is None:
                log.error("file_refused", file=str(goal), **note)
            elif not self._settings.keep_sent:
                await asyncio.to_thread(_remove, goal)
        except FileNotFoundError:
            log.warning("file_gone", file=str(file.path), **note)
        except OSError as error:
            self._unmoved[file] = note, sent
            self._states.failed(self._section, error)
            if is_new:
                log.error("file_not_moved", file=str(file.path), error=error.strerror, **note)

    async def _move_again(self) -> None:
        now = self._clock.monotonic()
        if now - self._moved_at < SEARCH_S:
            return
        self._moved_at = now
        for file, (note, sent) in list(self._unmoved.items()):
            await self._move(file, note, sent)


async def _one_of(running: set[asyncio.Task[None]]) -> None:
    """Wait until one has ended. Raises its error."""
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    running -= done
    for task in done:
        error = task.exception()
        if isinstance(error, SemqError):
            raise error
        task.result()


def _token(file: Offered, digest: str) -> str:
    """Return a token that identifies a repeat after a crash: this file, with this content."""
    place = f"{digest}\n{file.path}\n{file.modified_ns}\n{file.changed_ns}"
    return sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)
    note_of(path).unlink(missing_ok=True)
