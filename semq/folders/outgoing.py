"""Files in ``out``: a complete file is sent, then moved to ``sent`` (deleted without ``keep_sent``) or ``failed``.

A file is complete when size and times have not changed for ``settle_s``. Its token makes the node accept it once, also
after a crash. A file that was moved back to ``out`` has another token. While the node refuses documents for a target
temporarily, only the files for this target wait. Files that are not sent at all are logged, and reported if they stay.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from semq.app import Client, NodeBusy, RefusedByNode, Sent
from semq.app.content_type import content_type_of
from semq.clock import Clock
from semq.config.sections import FolderSection
from semq.errors import BadInput, Unavailable
from semq.folders.content import FileChanged, content_of
from semq.folders.errors import FileTooLarge, FileUnreadable, IgnoredFiles
from semq.folders.layout import Ignored, Layout, Offered, read_note
from semq.folders.token import day_of_token, mark_of, token_of
from semq.foreign_text import shown
from semq.service.companion.section_states import SectionStates
from semq.umx_t import retry

log = structlog.get_logger("semq.folders")

FILES_MAX = 20_000  # of one search
PARALLEL_MAX = 32  # files sent at the same time
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 30.0  # between attempts while the node is unavailable, or busy for a target
IGNORED_S = 3600.0  # unfinished and empty files are reported when they have not changed for so long
SEARCH_S = 30.0  # between searches if no change is reported, and no file or target waits


class _Incomplete(NamedTuple):
    """A file that may still change."""

    file: Offered
    unchanged_since: float  #: monotonic seconds


class _WaitingTarget(NamedTuple):
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
        """``document_max``: bytes of the largest document."""
        self._states = states
        self._section = shown(str(layout.out))
        self._layout = layout
        self._settings = settings
        self._document_max = document_max
        self._client = client
        self._clock = clock
        self._incomplete: dict[str, _Incomplete] = {}
        self._waiting_targets: dict[str, _WaitingTarget] = {}  #: by the name of the folder in ``out``
        self._retried_moves_at = clock.monotonic()
        self._logged: dict[str, Ignored] = {}  #: ignored files that were logged, by path
        self.accepted = self.refused = 0

    async def run(self, changes: AsyncIterator[object]) -> None:
        """Send files until cancelled. ``changes`` yields when something in ``out`` may have changed.

        Raises LoginRefused and further permanent errors.
        """
        changed = asyncio.ensure_future(self._wait_for_change(changes))
        try:
            while True:
                wait_s = await self._search()
                await asyncio.wait((changed,), timeout=wait_s)
                if changed.done():
                    changed.result()
                    changed = asyncio.ensure_future(self._wait_for_change(changes))
        finally:
            changed.cancel()

    async def _wait_for_change(self, changes: AsyncIterator[object]) -> None:
        """Wait for a change; forever, if the system cannot report changes."""
        try:
            await anext(changes)
        except (OSError, RuntimeError, StopAsyncIteration) as error:
            log.warning("changes_not_reported", root=str(self._layout.root), error=str(error), search_s=SEARCH_S)
            await asyncio.Event().wait()

    async def _search(self) -> float:
        """Send complete files. Return the seconds until the next search."""
        await self._retry_moves()
        offered = await asyncio.to_thread(self._layout.offered, FILES_MAX, self._paused_targets())
        ignored = self._log_ignored()
        if self._layout.unread:
            self._states.failed(self._section, next(iter(self._layout.unread.values())))
        elif ignored:
            self._states.failed(self._section, IgnoredFiles(count=len(ignored), first=shown(ignored[0])))
        elif not self._layout.unmoved:
            self._states.succeeded(self._section)
        complete = self._complete(offered)
        pauses = retry.growing(PAUSE_S_MIN, PAUSE_S_MAX)
        while complete:
            try:
                await self._send_all(complete)
                break
            except Unavailable as error:
                pause_s = next(pauses)
                log.warning("folder_waits", root=str(self._layout.root), error=str(error), again_in_s=pause_s)
                await asyncio.sleep(pause_s)
                complete = [file for file in complete if file.path.exists()]
        if len(offered) == FILES_MAX and complete:
            return 0.0
        now = self._clock.monotonic()
        due = [file.unchanged_since + self._settings.settle_s for file in self._incomplete.values()]
        due += [target.until for target in self._waiting_targets.values() if target.until > now]
        return max(min(due, default=now + SEARCH_S) - now, 0.05)

    def _log_ignored(self) -> list[str]:
        """Log each file that is not sent once; return the paths of those that are reported.

        A file that may still be written is logged and reported when it has not changed for ``IGNORED_S``.
        """
        now_ns = int(self._clock.wall().timestamp() * 1e9)
        reported = {
            path: file
            for path, file in self._layout.ignored.items()
            if not file.may_change or now_ns - file.changed_ns >= IGNORED_S * 1e9
        }
        for path in sorted(reported.keys() - self._logged.keys()):
            log.warning("file_ignored", file=shown(path), reason=reported[path].reason)
        self._logged = reported
        return sorted(reported)

    def _paused_targets(self) -> frozenset[str]:
        now = self._clock.monotonic()
        return frozenset(name for name, target in self._waiting_targets.items() if target.until > now)

    def _complete(self, offered: Iterable[Offered]) -> list[Offered]:
        """Return the files that have not changed for ``settle_s``, without those that could not be moved."""
        now, previous = self._clock.monotonic(), self._incomplete
        self._incomplete, complete = {}, []
        for file in offered:
            if file in self._layout.unmoved:
                continue
            known = previous.get(str(file.path))
            if known is None or known.file != file:
                self._incomplete[str(file.path)] = _Incomplete(file, now)
            elif now - known.unchanged_since < self._settings.settle_s:
                self._incomplete[str(file.path)] = known
            else:
                complete.append(file)
        return complete

    async def _send_all(self, files: list[Offered]) -> None:
        """Send files in parallel. Raises Unavailable."""
        running: set[asyncio.Task[None]] = set()
        try:
            for file in files:
                if len(running) >= PARALLEL_MAX:
                    await _until_one_ends(running)
                running.add(asyncio.create_task(self._send(file)))
            while running:
                await _until_one_ends(running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _send(self, file: Offered) -> None:
        """Send one file and move it. If the node is busy, delay the target's files. Raises Unavailable."""
        target = file.path.relative_to(self._layout.out).parts[0]
        if target in self._paused_targets():
            return
        try:
            sent = await self._submit(file)
            self._waiting_targets.pop(target, None)
        except NodeBusy as error:
            self._pause(target, error)
        except (RefusedByNode, BadInput) as error:
            self.refused += 1
            note = {"code": error.code, "reason": str(error), "remedy": error.remedy, "token": token_of(file, "")}
            await self._move(file, note, self._layout.failed)
        else:
            if sent is not None:
                self.accepted += 1
                note = {"name": sent.name, "lk0": sent.lk0, "token": sent.token, "digest": sent.digest}
                await self._move(file, await asyncio.to_thread(self._with_repeated, file, note), self._layout.sent)

    def _with_repeated(self, file: Offered, note: dict[str, str]) -> dict[str, str]:
        """Return the note, with the name of the earlier document if the file was sent before with the same content.

        Programs that mirror folders put a file that was moved away there again.
        """
        with suppress(OSError):  # nobody needs to know
            day = day_of_token(note["token"])
            earlier = read_note(self._layout.in_sent(file.path.relative_to(self._layout.out), day))
            if earlier.get("digest") == note["digest"] and earlier.get("lk0") != note["lk0"]:
                log.warning("file_sent_again", file=shown(str(file.path)), document=note["lk0"], before=earlier["lk0"])
                return note | {"sent_before_as": str(earlier["lk0"])}
        return note

    def _pause(self, target: str, error: NodeBusy) -> None:
        """Delay the files for a target. Refusals of files sent in parallel count once."""
        if target in self._paused_targets():
            return
        failures = self._waiting_targets[target].failures + 1 if target in self._waiting_targets else 1
        pause_s = retry.backoff(failures, PAUSE_S_MIN, PAUSE_S_MAX, self._clock.random())
        self._waiting_targets[target] = _WaitingTarget(self._clock.monotonic() + pause_s, failures)
        log.warning("target_waits", target=target, error=str(error), again_in_s=round(pause_s, 1))

    async def _submit(self, file: Offered) -> Sent | None:
        """Submit a file. Return None if it has changed or was removed. Raises BadInput, NodeBusy, Unavailable."""
        if file.size > self._document_max:
            raise FileTooLarge(size=file.size, size_max=self._document_max)
        route = self._layout.route(file.path)
        try:
            body, beginning, digest = await asyncio.to_thread(content_of, file)
        except (FileNotFoundError, FileChanged):
            return None  # a later search finds it again
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
                token=token_of(file, digest),
            )
        except FileChanged:
            return None
        except OSError as error:
            raise FileUnreadable(fault=error.strerror) from error

    async def _move(self, file: Offered, note: Mapping[str, object], folder: Path) -> None:
        """Move a file to ``failed`` or ``sent``; without ``keep_sent``, delete it from ``sent``.

        A failed move is repeated later.
        """
        layout, is_first_attempt = self._layout, file not in self._layout.unmoved
        layout.unmoved[file] = note, folder  # the outcome may arrive before the file is moved
        try:
            destination = await asyncio.to_thread(
                layout.move, file.path, folder, note, mark_of(str(note["token"])), file
            )
            if destination is None:
                text = "another file has this path now; it is processed as a new one"
                log.warning("file_replaced", file=str(file.path), text=text, **note)
            elif folder == layout.failed:
                log.error("file_refused", file=str(destination), **note)
            elif not self._settings.keep_sent:
                await asyncio.to_thread(layout.remove, destination)
        except FileNotFoundError:
            log.warning("file_gone", file=str(file.path), **note)
        except OSError as error:
            self._states.failed(self._section, error)
            if is_first_attempt:
                log.error("file_not_moved", file=str(file.path), error=error.strerror, **note)
            return
        del layout.unmoved[file]

    async def _retry_moves(self) -> None:
        now = self._clock.monotonic()
        if now - self._retried_moves_at < SEARCH_S:
            return
        self._retried_moves_at = now
        for file, (note, folder) in list(self._layout.unmoved.items()):
            await self._move(file, note, folder)


async def _until_one_ends(running: set[asyncio.Task[None]]) -> None:
    """Wait until a task has ended, and remove it. Raises the error of one of those that have failed."""
    done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    running -= done
    errors = [error for task in done if (error := task.exception()) is not None]  # each is marked as retrieved
    if errors:
        raise errors[0]
