"""Outcomes of sent documents: written into the notes beside their files (NAME.semq.json).

The file of a document that was not delivered is moved to ``failed``, and back if a later event corrects the outcome.
Events come from a durable queue of the node. An event waits there while its outcome cannot be written, or its file
cannot be searched for; the others go on.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import structlog

from semq.app import Client, DocumentEvent
from semq.app.document_tasks import EventTasks
from semq.folders.layout import Layout, is_present, marked, note_of, read_note
from semq.folders.token import day_of_token, mark_of
from semq.moments import utc_text
from semq.service.companion.section_states import SectionStates
from semq.service.companion.sections import QUEUE_EXPIRES_S
from semq.umx_t import retry
from semq.umx_t.address import parse_address
from semq.umx_t.errors import BadAddress
from semq.umx_t.status import Outcome

log = structlog.get_logger("semq.folders")

OUTCOMES = "outcomes"  # the section of the companion
QUEUE = "semq.folders"
PREFETCH = 1024  # outcomes that may wait, before others wait for them, too
DELIVERED = Outcome.DELIVERED.name
SEARCH_PAUSE_S_MIN, SEARCH_PAUSE_S_MAX = 0.2, 5.0  # between two searches for a file that is being moved
SEARCHES_USUAL = 3  # after more searches, the wait is shown in the health
#: Searches for the file of a document, in half a minute, while ``out`` has a file of this name that may belong to
#: another document. If the file is known to belong to this document, there is no limit.
SEARCHES_MAX = 11
PAUSE_S_MIN, PAUSE_S_MAX = 1.0, 30.0  # between attempts while the outcome cannot be written


class OutcomeWriter:
    """Writes the outcomes of documents that were sent from the roots of one node."""

    def __init__(self, layouts: Sequence[Layout], client: Client, states: SectionStates) -> None:
        self._layouts = layouts
        self._client = client
        self._states = states
        self._waiting: set[str] = set()  #: ids of events whose outcomes cannot be written yet

    async def run(self, on_success: Callable[[], None]) -> None:
        """Write outcomes until cancelled; ``on_success`` is called when the queue is open.

        Raises NodeUnreachable, LoginRefused, RefusedByNode.
        """
        async with self._client.events(
            "#", queue=QUEUE, expires_s=QUEUE_EXPIRES_S, prefetch=PREFETCH, settles=True
        ) as events:
            on_success()
            await EventTasks(self._process).run(events)

    async def _process(self, event: DocumentEvent) -> None:
        """Write an outcome. Repeat until this succeeds."""
        if not event.is_final:
            return
        pauses = retry.growing(PAUSE_S_MIN, PAUSE_S_MAX)
        try:
            while True:
                try:
                    found = await self._find(event)
                    if found is not None:
                        await asyncio.to_thread(_note_outcome, *found, event)
                    return
                except OSError as error:
                    pause_s = next(pauses)
                    facts = {"outcome": event.fate.outcome, "error": error.strerror, "again_in_s": pause_s}
                    log.error("outcome_not_noted", document=event.lk0, file=error.filename, **facts)
                    self._fail(event, error)
                    await asyncio.sleep(pause_s)
        finally:
            self._waiting.discard(event.id)
            if not self._waiting:
                self._states.succeeded(OUTCOMES)

    def _fail(self, event: DocumentEvent, error: Exception) -> None:
        self._waiting.add(event.id)
        self._states.failed(OUTCOMES, error)

    async def _find(self, event: DocumentEvent) -> tuple[Layout, Path] | None:
        """Wait until the file of a document has left ``out``; return its root and path, or None if there is no file.

        Raises OSError if a root cannot be searched and no other root has the file.
        """
        errors: list[OSError] = []
        for layout in self._layouts:
            try:
                path = await self._find_in(layout, event)
            except OSError as error:
                errors.append(error)
            else:
                if path is not None:
                    return layout, path
        if errors:
            raise errors[0]
        return None

    async def _find_in(self, layout: Layout, event: DocumentEvent) -> Path | None:
        """Wait until the file of a document has left ``out`` of one root; return its path or None. Raises OSError."""
        searches, pauses = 0, retry.growing(SEARCH_PAUSE_S_MIN, SEARCH_PAUSE_S_MAX)
        while True:
            searches += 1
            # Checked before the search: if the file is moved in between, the search finds it.
            is_known = any(_belongs_to(note, event) for note, _ in layout.unmoved.values())
            is_in_out = await asyncio.to_thread(_is_in_out, layout, event)
            path = await asyncio.to_thread(_find, layout, event)
            if path is not None or not (is_known or (is_in_out and searches < SEARCHES_MAX)):
                return path
            if searches > SEARCHES_USUAL:
                text = f"an outcome waits until the file {event.app_key.key} leaves {layout.out}"
                self._fail(event, TimeoutError(text))
            await asyncio.sleep(next(pauses))


def _relative_paths(layout: Layout, event: DocumentEvent) -> list[Path]:
    """Return the possible relative paths of the file of a document."""
    key = event.app_key
    if key.domain != layout.domain or not key.key or any("/" in part or part in (".", "..") for part in key):
        return []  # sent by another application
    try:
        address = parse_address(event.group.target if event.group else event.target)
    except BadAddress:
        return []  # submitted by SQL, and refused because of its target
    user = f"@{address.user}" if address.user else ""
    return [layout.path_of(f"{node}{user}", event.app_key) for node in (address.id, f"{address.type}.{address.id}")]


def _find(layout: Layout, event: DocumentEvent) -> Path | None:
    """Return the file of a document; None if there is none. Raises OSError if that cannot be determined.

    The token gives the folder in ``sent`` and the mark, so that a search costs the same however many files there are.
    """
    mark, day = mark_of(event.token), day_of_token(event.token)
    relative_paths = _relative_paths(layout, event) if day else []
    if relative_paths:
        layout.identity.check()  # otherwise all files would seem to be missing
        layout.out.stat()
    for relative_path in relative_paths:
        for plain in (layout.in_sent(relative_path, day), layout.in_failed(relative_path)):
            for path in (plain, marked(plain, mark)):
                if _belongs_to(read_note(path), event) and is_present(path):
                    return path
    return None


def _belongs_to(note: Mapping[str, object], event: DocumentEvent) -> bool:
    """Whether a note is of this document. Its LK0 may differ, if the document was sent in pieces or sealed again."""
    return bool(event.token) and note.get("token") == event.token


def _is_in_out(layout: Layout, event: DocumentEvent) -> bool:
    return any(is_present(layout.out / relative_path) for relative_path in _relative_paths(layout, event))


def _note_outcome(layout: Layout, path: Path, event: DocumentEvent) -> None:
    """Write the outcome into the note, and move the file to ``sent`` or ``failed``. Raises OSError."""
    outcome = {"outcome": event.fate.outcome, "reason": event.fate.reason, "ended_at": utc_text(event.at)}
    note = read_note(path)
    if not _belongs_to(note, event):  # the file was moved after the search, which is repeated
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(note_of(path)))
    note |= _group_outcomes(note, event, outcome) if event.group else outcome
    folder = layout.failed if note.get("outcome", DELIVERED) != DELIVERED else layout.sent
    if path.is_relative_to(folder):
        layout.write_note(path, note)
    else:
        destination = layout.move(path, folder, note, mark_of(event.token))
        facts = {"outcome": note["outcome"], "reason": note["reason"]}
        log.warning("file_moved", file=str(destination), document=note.get("lk0"), **facts)


def _group_outcomes(note: Mapping[str, Any], event: DocumentEvent, outcome: dict[str, str]) -> dict[str, object]:
    """Return the outcomes of a document to a group, by member.

    When all members have an outcome, the result also has the outcome of the submission: DELIVERED, or the outcome of
    the first member that did not get the document.
    """
    assert event.group is not None
    members = {**note.get("members", {}), event.target: {"member": event.group.member, **outcome}}
    failed = [member for member in members.values() if member["outcome"] != DELIVERED]
    if len(members) < event.group.members:
        return {"members": members}
    decisive = min(failed, key=itemgetter("member"), default=members[event.target])
    return {"members": members, **{name: decisive[name] for name in outcome}}
