"""Outcomes of sent documents."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from semq.app import DocumentEvent, GroupMember
from semq.clock import SystemClock
from semq.config.sections import FolderSection
from semq.folders import outcomes
from semq.folders.layout import Layout, note_of, read_note
from semq.folders.outcomes import OUTCOMES, OutcomeWriter, _find, _is_in_out, _note_outcome
from semq.folders.outgoing import Outgoing
from semq.umx_t.app_key import AppKey
from tests.service.companion.reported import ConnectedStates
from tests.waiting import until

LK0 = "1.10008.1.1.7.1"
GROUP = "1.10008.1.1.7.9"
DAY = "2026-11-22"
MODIFIED = datetime(2026, 11, 22, tzinfo=UTC).timestamp()
TOKEN = f"{DAY}-{'a' * 40}"


def event(*key: str) -> DocumentEvent:
    return DocumentEvent("delivered", LK0, "1.56001", AppKey(*key), datetime(2026, 11, 22, tzinfo=UTC), token=TOKEN)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "root")
    layout.make()
    return layout


@pytest.mark.parametrize("key", ["文" * 128, "../../../elsewhere", "../../elsewhere", "/etc/passwd", "..", "a/b"])
def test_a_key_that_is_no_file_name_leads_to_no_file(layout: Layout, key: str) -> None:
    for folder in (layout.out, layout.sent):
        (folder / "56001").mkdir()
    elsewhere = layout.root.parent / "elsewhere"
    elsewhere.write_bytes(b"")
    layout.write_note(elsewhere, {"lk0": LK0, "token": TOKEN})
    assert _find(layout, event("", "", "", key)) is None
    assert not _is_in_out(layout, event("", "", "", key))


def test_a_type_that_is_no_name_of_a_folder_leads_to_no_file(layout: Layout) -> None:
    """It is too long, or a file has this name. Events of other applications have such types."""
    (layout.sent / DAY / "56001").mkdir(parents=True)
    (layout.sent / DAY / "56001" / "a.xml").write_bytes(b"")
    for type_ in ("文" * 128, "a.xml"):
        assert _find(layout, event("", type_, "", "b.xml")) is None
        assert not _is_in_out(layout, event("", type_, "", "b.xml"))


def test_a_refused_submission_without_a_target_belongs_to_no_file(layout: Layout) -> None:
    refused = DocumentEvent(
        "failed", LK0, "", AppKey("", "", "", "a.xml"), datetime(2026, 11, 22, tzinfo=UTC), token=TOKEN
    )
    assert _find(layout, refused) is None
    assert not _is_in_out(layout, refused)


@pytest.fixture
def file(layout: Layout) -> Path:
    """Return a file that was sent to a group of two members."""
    path = layout.sent / DAY / "3.retailers" / "a.xml"
    layout.write_note(path, {"lk0": GROUP, "token": TOKEN})
    path.write_bytes(b"")
    os.utime(path, (MODIFIED, MODIFIED))
    return path


def of_member(number: int, kind: str, outcome: str, reason: str = "") -> DocumentEvent:
    """Return the event that reports the outcome of one member's document."""
    at, member = datetime(2026, 11, 22, tzinfo=UTC), GroupMember(GROUP, "3.retailers", number, 2)
    target, key = f"1.5600{number}", AppKey("", "", "", "a.xml")
    return DocumentEvent(kind, f"{GROUP}{number}", target, key, at, 1, outcome, reason, token=TOKEN, group=member)


def test_a_file_to_a_group_has_an_outcome_when_all_members_have_outcomes(layout: Layout, file: Path) -> None:
    event = of_member(2, "delivered", "DELIVERED")
    assert _find(layout, event) == file
    _note_outcome(layout, file, event)
    assert "outcome" not in read_note(file)
    assert read_note(file)["members"]["1.56002"]["outcome"] == "DELIVERED"
    _note_outcome(layout, file, event)  # received again after a crash
    assert "outcome" not in read_note(file)
    _note_outcome(layout, file, of_member(1, "delivered", "DELIVERED"))
    assert read_note(file)["outcome"] == "DELIVERED"


def test_a_file_to_a_group_has_the_outcome_of_the_first_member_that_did_not_get_it(layout: Layout, file: Path) -> None:
    _note_outcome(layout, file, of_member(2, "failed", "REJECTED", "second"))
    assert file.exists()
    _note_outcome(layout, file, of_member(1, "failed", "CANCELLED", "first"))
    failed = layout.failed / "3.retailers" / "a.xml"
    assert not file.exists()
    assert [read_note(failed)[name] for name in ("outcome", "reason")] == ["CANCELLED", "first"]


def test_a_corrected_outcome_of_a_member_moves_the_file_back(layout: Layout, file: Path) -> None:
    _note_outcome(layout, file, of_member(1, "delivered", "DELIVERED"))
    _note_outcome(layout, file, of_member(2, "failed", "REJECTED"))
    event = of_member(2, "delivered", "DELIVERED")
    failed = _find(layout, event)
    assert failed is not None
    assert failed.is_relative_to(layout.failed)
    _note_outcome(layout, failed, event)
    assert read_note(file)["outcome"] == "DELIVERED"


def test_a_note_that_cannot_be_read_is_not_replaced(layout: Layout, file: Path) -> None:
    note_of(file).unlink()
    note_of(file).symlink_to(note_of(file))
    with pytest.raises(OSError, match="symbolic links"):
        _note_outcome(layout, file, of_member(1, "failed", "REJECTED"))
    assert note_of(file).is_symlink()


def test_an_outcome_is_not_written_for_a_file_that_has_left_its_folder_after_the_search(
    layout: Layout, file: Path
) -> None:
    note_of(file).unlink()
    with pytest.raises(FileNotFoundError):
        _note_outcome(layout, file, of_member(1, "failed", "REJECTED"))
    assert not note_of(file).exists()


def test_a_file_with_a_shortened_name_is_found(layout: Layout) -> None:
    name = "文" * 83
    path = layout.out / "56001" / name
    path.parent.mkdir()
    path.write_bytes(b"")
    os.utime(path, (MODIFIED, MODIFIED))
    moved = layout.move(path, layout.sent, {"lk0": LK0, "token": TOKEN})
    assert moved is not None
    assert _find(layout, event("", "", "", name)) == moved


@pytest.mark.parametrize("folder", ["sent", "failed"])
@pytest.mark.parametrize("name", ["a.xml", f"a~{'a' * 12}.xml"])
def test_a_file_is_found_by_its_token_without_a_list_of_its_folder(
    layout: Layout, name: str, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages of a document in pieces, or of one that was sealed again, have other locators."""
    place = (layout.sent / DAY if folder == "sent" else layout.failed) / "56001"
    for file_name, note in (("a.xml", {"lk0": GROUP, "token": "T0"}), (name, {"lk0": f"{GROUP}1", "token": TOKEN})):
        layout.write_note(place / file_name, note)
        (place / file_name).write_bytes(b"")

    def listed(*_: object) -> None:
        raise AssertionError("a folder with a file for each document of years would be listed")

    for function in ("listdir", "scandir"):
        monkeypatch.setattr(os, function, listed)
    assert _find(layout, event("", "", "", "a.xml")) == place / name
    assert _find(layout, replace(event("", "", "", "a.xml"), token="T0")) is None


class EventChannel:
    """The channel of an event."""

    is_open = True

    def __init__(self, acknowledged: asyncio.Event) -> None:
        self._acknowledged = acknowledged

    def ack(self, tag: int) -> None:
        self._acknowledged.set()


class EventQueue:
    """A queue with an event, and possibly others behind it."""

    def __init__(self, event: DocumentEvent, *others: DocumentEvent) -> None:
        self.acknowledged = asyncio.Event()  # of the first one
        channel: Any = EventChannel(self.acknowledged)
        self._events = (replace(event, _channel=channel), *others)

    @asynccontextmanager
    async def events(self, keys: str, **_: Any) -> AsyncIterator[AsyncIterator[DocumentEvent]]:
        async def arriving() -> AsyncIterator[DocumentEvent]:
            for event in self._events:
                yield event
            await asyncio.Event().wait()

        yield arriving()


@asynccontextmanager
async def written(
    layouts: Layout | Sequence[Layout], event: DocumentEvent, reported: ConnectedStates, *others: DocumentEvent
) -> AsyncIterator[EventQueue]:
    """Write the outcomes that events report."""
    queue: Any = EventQueue(event, *others)
    layouts = [layouts] if isinstance(layouts, Layout) else layouts
    task = asyncio.create_task(OutcomeWriter(layouts, queue, reported.states).run(lambda: None))
    yield queue
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def rejected() -> DocumentEvent:
    """Return the event about the file ``a.xml``, which its receiver has refused."""
    at, key = datetime(2026, 11, 22, tzinfo=UTC), AppKey("", "", "", "a.xml")
    return DocumentEvent("failed", LK0, "1.56001", key, at, 1, "REJECTED", "SEMQ-1203", token=TOKEN)


def take_away(folder: Path) -> Path:
    """Make a folder unusable; return where it is now."""
    away = folder.rename(folder.with_name("away"))
    folder.symlink_to("y" * 300)  # a name that is too long for any file system
    return away


def bring_back(folder: Path, away: Path) -> None:
    folder.unlink()
    away.rename(folder)


def sent_file(layout: Layout) -> Path:
    """Make the file of the document LK0 in ``sent``, with its note."""
    file = layout.sent / DAY / "56001" / "a.xml"
    layout.write_note(file, {"lk0": LK0, "token": TOKEN})
    file.write_bytes(b"")
    return file


async def test_an_event_is_acknowledged_when_its_outcome_is_written(
    layout: Layout, rejected: DocumentEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "PAUSE_S_MIN", 0.01)
    reported = ConnectedStates()
    file = sent_file(layout)
    away = take_away(layout.failed)
    async with written(layout, rejected, reported) as queue:
        await until(lambda: reported.failing.get(OUTCOMES) and reported.failing[OUTCOMES].failures > 1)
        assert "too long" in reported.failing[OUTCOMES].error
        assert not queue.acknowledged.is_set()
        bring_back(layout.failed, away)
        await queue.acknowledged.wait()
    assert reported.failing == {}
    assert read_note(layout.failed / "56001" / "a.xml")["outcome"] == "REJECTED"
    assert not file.exists()


async def test_an_outcome_that_cannot_be_written_delays_only_later_ones_of_its_document(
    layout: Layout, rejected: DocumentEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "PAUSE_S_MIN", 0.01)
    reported, other_token = ConnectedStates(), f"{DAY}-{'b' * 40}"
    os.utime(sent_file(layout), (MODIFIED, MODIFIED))
    other = layout.sent / DAY / "56001" / "b.xml"
    layout.write_note(other, {"lk0": GROUP, "token": other_token})
    other.write_bytes(b"")
    away = take_away(layout.failed)
    corrected = replace(rejected, kind="delivered", outcome="DELIVERED", reason="", id="2")
    of_other = replace(corrected, lk0=GROUP, app_key=AppKey("", "", "", "b.xml"), token=other_token, id="3")
    async with written(layout, rejected, reported, corrected, of_other) as queue:
        await until(lambda: read_note(other).get("outcome") == "DELIVERED")
        await until(lambda: OUTCOMES in reported.failing)  # still, although another one was written
        bring_back(layout.failed, away)
        await queue.acknowledged.wait()
        corrected_path = layout.sent / DAY / "56001" / "a.xml"
        await until(lambda: read_note(corrected_path).get("outcome") == "DELIVERED" and reported.failing == {})


@pytest.mark.parametrize("place", [f"{DAY}/56001", f"{DAY}/56001/a.xml.semq.json", DAY, ""])
async def test_an_event_waits_while_the_note_of_its_file_cannot_be_read(
    layout: Layout, rejected: DocumentEvent, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(outcomes, "PAUSE_S_MIN", 0.01)
    reported = ConnectedStates()
    sent_file(layout)
    unreadable = layout.sent / place
    away = unreadable.rename(layout.root / "away")
    unreadable.symlink_to(unreadable)
    async with written(layout, rejected, reported) as queue:
        await until(lambda: queue.acknowledged.is_set() or reported.failing.get(OUTCOMES))
        assert not queue.acknowledged.is_set()
        assert "symbolic links" in reported.failing[OUTCOMES].error
        bring_back(unreadable, away)
        await queue.acknowledged.wait()
    assert reported.failing == {}
    assert read_note(layout.failed / "56001" / "a.xml")["outcome"] == "REJECTED"


async def test_an_event_waits_while_its_root_is_not_mounted(
    layout: Layout, rejected: DocumentEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "PAUSE_S_MIN", 0.01)
    reported = ConnectedStates()
    sent_file(layout)
    away = layout.root.rename(layout.root.with_name("away"))
    layout.root.mkdir()
    async with written(layout, rejected, reported) as queue:
        await until(lambda: queue.acknowledged.is_set() or reported.failing.get(OUTCOMES))
        assert not queue.acknowledged.is_set()
        layout.root.rmdir()
        away.rename(layout.root)
        await queue.acknowledged.wait()
    assert read_note(layout.failed / "56001" / "a.xml")["outcome"] == "REJECTED"


async def test_an_outcome_is_written_while_another_root_is_not_mounted(layout: Layout, rejected: DocumentEvent) -> None:
    sent_file(layout)
    reported = ConnectedStates()
    async with written([Layout(layout.root.with_name("away")), layout], rejected, reported) as queue:
        await until(lambda: queue.acknowledged.is_set() or reported.failing)
    assert reported.failing == {}
    assert read_note(layout.failed / "56001" / "a.xml")["outcome"] == "REJECTED"


async def test_an_event_waits_while_its_file_cannot_be_moved(
    layout: Layout, rejected: DocumentEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[Path | None] = []

    def find(layout: Layout, event: DocumentEvent) -> Path | None:
        searches.append(_find(layout, event))
        return searches[-1]

    monkeypatch.setattr(outcomes, "_find", find)
    monkeypatch.setattr(outcomes, "SEARCHES_MAX", 1)
    monkeypatch.setattr(outcomes, "SEARCH_PAUSE_S_MIN", 0.01)
    monkeypatch.setattr("semq.folders.outgoing.SEARCH_S", 0.0)
    reported = ConnectedStates()
    no_client: Any = None
    settings = FolderSection(path=layout.root)
    outgoing = Outgoing(layout, settings, 1000, no_client, SystemClock(), reported.states)
    path = layout.out / "56001" / "a.xml"
    path.parent.mkdir()
    path.write_bytes(b"a")
    os.utime(path, (MODIFIED, MODIFIED))
    [file] = layout.offered(1)
    away = take_away(layout.sent)
    await outgoing._move(file, {"name": "NAME", "lk0": LK0, "token": TOKEN}, layout.sent)
    async with written(layout, rejected, reported) as queue:
        await until(lambda: len(searches) > 2 or queue.acknowledged.is_set())
        assert not queue.acknowledged.is_set()
        await until(lambda: reported.failing.get(OUTCOMES))
        assert str(layout.out) in reported.failing[OUTCOMES].error
        bring_back(layout.sent, away)
        await outgoing._retry_moves()
        await queue.acknowledged.wait()
    assert OUTCOMES not in reported.failing
    assert read_note(layout.failed / "56001" / "a.xml")["outcome"] == "REJECTED"


async def test_a_file_that_leaves_out_during_the_search_is_found(
    layout: Layout, rejected: DocumentEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = layout.out / "56001" / "a.xml"
    path.parent.mkdir()
    path.write_bytes(b"")
    os.utime(path, (MODIFIED, MODIFIED))

    def find(layout: Layout, event: DocumentEvent) -> Path | None:
        found = _find(layout, event)
        if path.exists():
            layout.move(path, layout.sent, {"lk0": LK0, "token": TOKEN})
        return found

    monkeypatch.setattr(outcomes, "_find", find)
    reported = ConnectedStates()
    async with written(layout, rejected, reported) as queue:
        await until(lambda: queue.acknowledged.is_set() or reported.failing)
    assert reported.failing == {}  # this is usual
    assert read_note(layout.failed / "56001" / "a.xml")["outcome"] == "REJECTED"
