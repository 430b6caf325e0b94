"""Outcomes of sent documents: written into the note beside the file; a file that failed is moved to ``failed``.

Events wait for this process in a durable queue of the node, so that none is missed while it does not run.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import escape
from operator import itemgetter
from pathlib import Path
from typing import Any

import structlog

from semq.app import Client, DocumentEvent
from semq.folders.layout import Layout, kept, marked, note_of, read_note, write_note
from semq.moments import utc_text
from semq.service.companion.sections import QUEUE_EXPIRES_S
from semq.umx_t.address import parse_address
from semq.umx_t.errors import BadAddress
from semq.umx_t.short_name import short_name
from semq.umx_t.status import Outcome

log = structlog.get_logger("semq.folders")

QUEUE = "semq.folders"
DELIVERED = Outcome.DELIVERED.name
PAUSE_S = 0.2  # between two searches for a file that is being moved
LOOKS_MAX = 150  # searches; afterwards the file is missing, or another one of the same name stays in ``out``


class Outcomes:
    """Notes the outcomes of documents sent from the roots of one node."""

    def __init__(self, layouts: Sequence[Layout], client: Client) -> None:
        self._layouts = layouts
        self._client = client

    async def run(self, works: Callable[[], None]) -> None:
        """Note outcomes until cancelled. Raises NodeUnreachable, LoginRefused, RefusedByNode."""
        async with self._client.events("#", queue=QUEUE, expires_s=QUEUE_EXPIRES_S) as events:
            works()
            async for event in events:
                if event.is_final:
                    await self._note(event)

    async def _note(self, event: DocumentEvent) -> None:
        for layout in self._layouts:
            for _ in range(LOOKS_MAX):
                path = await asyncio.to_thread(_find, layout, event)
                if path is not None:
                    await self._conclude(layout, path, event)
                    return
                if not await asyncio.to_thread(_is_under_way, layout, event):
                    break
                await asyncio.sleep(PAUSE_S)  # accepted, but not yet moved to ``sent``

    async def _conclude(self, layout: Layout, path: Path, event: DocumentEvent) -> None:
        try:
            await asyncio.to_thread(_conclude, layout, path, event)
        except OSError as error:
            log.error("outcome_not_noted", file=str(path), outcome=event.fate.outcome, error=error.strerror)


def _places(layout: Layout, event: DocumentEvent) -> list[Path]:
    """Return the possible paths of a document's file, relative to ``out``, ``sent`` or ``failed``."""
    key = event.app_key
    if key.domain != layout.domain or not key.key or any("/" in part or part in (".", "..") for part in key):
        return []  # sent by another application
    try:
        address = parse_address(event.group.target if event.group else event.target)
    except BadAddress:
        return []  # submitted by SQL, and refused because of its target
    user = f"@{address.user}" if address.user else ""
    return [layout.place_of(f"{node}{user}", event.app_key) for node in (address.id, f"{address.type}.{address.id}")]


def _find(layout: Layout, event: DocumentEvent) -> Path | None:
    """Return the file of a document. Searches ``failed`` too, because a later event can correct an outcome."""
    name = short_name(_submission(event))
    for plain in (folder / kept(one) for one in _places(layout, event) for folder in (layout.sent, layout.failed)):
        for path in (plain, marked(plain, name), *_of_same_name(plain, event)):
            if _is_of(event, read_note(path)) and os.path.lexists(path):
                return path
    return None


def _is_of(event: DocumentEvent, note: Mapping[str, Any]) -> bool:
    """Whether a note has the LK0 or the token of a document. The message of a document in pieces, and one that was
    sealed again, have another LK0 than the submission."""
    return note.get("lk0") == _submission(event) or (bool(event.token) and note.get("token") == event.token)


def _of_same_name(plain: Path, event: DocumentEvent) -> Iterator[Path]:
    """Yield the other files of a name, which end in a mark, if there may be some: then ``plain`` exists."""
    if event.token and os.path.lexists(plain):
        yield from plain.parent.glob(f"{escape(plain.stem)}~*{escape(plain.suffix)}")


def _submission(event: DocumentEvent) -> str:
    """Return the LK0 in the note of a file: that of the document, or of its submission to a group."""
    return event.group.lk0 if event.group else event.lk0


def _is_under_way(layout: Layout, event: DocumentEvent) -> bool:
    return any(os.path.lexists(layout.out / place) for place in _places(layout, event))


def _conclude(layout: Layout, path: Path, event: DocumentEvent) -> None:
    """Write the outcome down, and move the file to its folder. Raises OSError."""
    outcome = {"outcome": event.fate.outcome, "reason": event.fate.reason, "ended_at": utc_text(event.at)}
    note = read_note(path)
    note |= _of_group(note, event, outcome) if event.group else outcome
    folder = layout.failed if note.get("outcome", DELIVERED) != DELIVERED else layout.sent
    if path.is_relative_to(folder):
        write_note(path, note)
    else:
        lk0 = str(note["lk0"])
        goal = layout.move(path, folder, note, short_name(lk0))
        note_of(path).unlink(missing_ok=True)
        log.warning("file_moved", file=str(goal), document=lk0, outcome=note["outcome"], reason=note["reason"])


def _of_group(note: Mapping[str, Any], event: DocumentEvent, outcome: dict[str, str]) -> dict[str, Any]:
    """Return the outcomes of a document to a group by member, and its own when all members have one: DELIVERED, or
    that of the first member that did not get the document.
    """
    assert event.group is not None
    members = {**note.get("members", {}), event.target: {"member": event.group.member, **outcome}}
    missed = [one for one in members.values() if one["outcome"] != DELIVERED]
    if len(members) < event.group.members:
        return {"members": members}
    first = min(missed, key=itemgetter("member"), default=members[event.target])
    return {"members": members, **{name: first[name] for name in outcome}}
