"""Documents of an inbox as files."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pytest
from structlog.testing import capture_logs

from semq.app import Document
from semq.folders.incoming import PREFETCH, Incoming
from semq.folders.layout import Layout, note_of, read_note
from semq.umx_t.app_key import AppKey
from tests.mounts import mounted
from tests.service.companion.reported import ConnectedStates
from tests.waiting import until


class SlowDocument(Document):
    """A document whose writing waits for the test after the first byte of its body."""

    def __init__(self, *values: Any, **more: Any) -> None:
        super().__init__(*values, **more)
        self.is_begun, self.may_continue = threading.Event(), threading.Event()

    def blocks(self) -> Iterator[bytes]:
        self.is_begun.set()
        yield self.payload[:1]
        self.may_continue.wait()
        yield self.payload[1:]


D = TypeVar("D", bound=Document)


class FolderInbox:
    """An inbox filled by the test."""

    def __init__(self) -> None:
        self.documents: asyncio.Queue[Document] = asyncio.Queue()
        self.acked: list[bytes] = []
        self.rejected: list[bytes] = []
        self.headers: dict[str, Any] = {}  #: of the next documents
        self.parked: list[str] = []  #: reasons
        self.slow_documents: list[SlowDocument] = []

    def deliver(self, lk0: str, key: AppKey, body: bytes, source: str = "1.10008") -> Document:
        return self._deliver(Document, lk0, key, body, source)

    def deliver_slowly(self, lk0: str, key: AppKey, body: bytes) -> SlowDocument:
        self.slow_documents.append(self._deliver(SlowDocument, lk0, key, body))
        return self.slow_documents[-1]

    def _deliver(self, kind: type[D], lk0: str, key: AppKey, body: bytes, source: str = "1.10008") -> D:
        channel = FolderChannel(lambda: self.acked.append(body), lambda: self.rejected.append(body))
        document = kind(lk0, source, "1.56001", key, body, "", headers=self.headers, _channel=channel)  # type: ignore[arg-type]
        self.documents.put_nowait(document)
        return document

    @asynccontextmanager
    async def receive(self, user: str, prefetch: int) -> AsyncIterator["FolderDeliveries"]:
        yield FolderDeliveries(self, prefetch)

    async def request(self, operation: str, arguments: dict[str, str]) -> None:
        assert operation == "failed.park"
        self.parked.append(arguments["error"])


class FolderDeliveries:
    """The deliveries of an inbox, of which no more are unsettled than the prefetch and the places made for others."""

    def __init__(self, inbox: FolderInbox, prefetch: int) -> None:
        self._inbox = inbox
        self._prefetch = prefetch
        self._given = 0
        self.set_aside = 0

    def make_room(self, set_aside: int) -> None:
        self.set_aside = set_aside

    def __aiter__(self) -> "FolderDeliveries":
        return self

    async def __anext__(self) -> Document:
        await until(lambda: self._given - self._settled() < self._prefetch + self.set_aside)
        document = await self._inbox.documents.get()
        self._given += 1
        return document

    def _settled(self) -> int:
        return len(self._inbox.acked) + len(self._inbox.rejected)


class FolderChannel:
    is_open = True

    def __init__(self, on_ack: Callable[[], object], on_reject: Callable[[], object]) -> None:
        self._on_ack = on_ack
        self._on_reject = on_reject

    def ack(self, tag: int) -> None:
        self._on_ack()

    def reject(self, tag: int, requeue: bool) -> None:
        self._on_reject()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "root")
    layout.make()
    return layout


@pytest.fixture
def reported() -> ConnectedStates:
    return ConnectedStates()


@pytest.fixture
async def inbox(
    layout: Layout, reported: ConnectedStates, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[FolderInbox]:
    monkeypatch.setattr("semq.folders.incoming.PAUSE_S_MIN", 0.01)
    inbox: Any = FolderInbox()
    task = asyncio.create_task(Incoming(layout, "", inbox, reported.states).run(lambda: None))
    yield inbox
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def files(layout: Layout) -> dict[str, bytes]:
    paths = (path for path in layout.arrived.rglob("*") if path.is_file() and not path.name.endswith((".json", ".new")))
    return {str(path.relative_to(layout.arrived)): path.read_bytes() for path in paths}


async def test_a_document_with_the_name_of_a_folder_does_not_delay_others(layout: Layout, inbox: FolderInbox) -> None:
    inbox.deliver("1", AppKey("", "", "", "order"), b"a file")
    await until(lambda: inbox.acked == [b"a file"])
    inbox.deliver("2", AppKey("", "order", "", "x"), b"in a folder")
    await until(lambda: len(inbox.acked) == 2)
    inbox.deliver("3", AppKey("", "", "", "order~folder"), b"a file again")
    await until(lambda: len(inbox.acked) == 3)
    assert sorted(files(layout).values()) == [b"a file", b"a file again", b"in a folder"]


async def test_a_folder_that_cannot_be_written_is_tried_again(
    layout: Layout, inbox: FolderInbox, reported: ConnectedStates
) -> None:
    away = layout.arrived.rename(layout.root / "away")
    layout.arrived.symlink_to("y" * 300)  # a name that is too long for any file system
    with capture_logs() as log_lines:
        inbox.deliver("1", AppKey("", "order", "", "x"), b"body")
        await until(lambda: any(line["event"] == "document_not_written" for line in log_lines))
        await until(lambda: bool(reported.failing))
    assert "too long" in reported.failing[str(layout.arrived)].error
    layout.arrived.unlink()
    away.rename(layout.arrived)
    await until(lambda: inbox.acked == [b"body"])
    assert reported.failing == {}


async def test_a_full_disk_is_reported_with_the_file_and_advice(
    layout: Layout, inbox: FolderInbox, reported: ConnectedStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system names no file when a write fails."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as context, capture_logs() as log_lines:
        context.setattr("semq.folders.layout.write_blocks_safely", fail)
        inbox.deliver("1", AppKey("", "order", "", "x"), b"body")
        await until(lambda: bool(reported.failing))
    path = str(layout.arrived / "10008" / "order" / "x")
    [line, *_] = [line for line in log_lines if line["event"] == "document_not_written"]
    assert line["file"] == path
    assert "Free disk space" in line["advice"]
    assert path in reported.failing[str(layout.arrived)].error
    await until(lambda: inbox.acked == [b"body"])


async def test_the_note_has_the_own_headers_of_the_sender(layout: Layout, inbox: FolderInbox) -> None:
    inbox.headers = {"x-ref": "R1", "x-correlation-id": "C1", "x-type": "order"}
    inbox.deliver("1", AppKey("", "", "", "x"), b"body")
    await until(lambda: inbox.acked == [b"body"])
    assert read_note(layout.arrived / "10008" / "x")["headers"] == inbox.headers


async def test_nothing_is_acknowledged_while_another_folder_has_the_path_of_the_root(
    layout: Layout, inbox: FolderInbox, reported: ConnectedStates
) -> None:
    away = layout.root.rename(layout.root.with_name("away"))
    layout.arrived.mkdir(parents=True)
    inbox.deliver("1", AppKey("", "order", "", "x"), b"body")
    await until(lambda: bool(reported.failing))
    assert "not mounted" in reported.failing[str(layout.arrived)].error
    assert list(layout.arrived.iterdir()) == []
    layout.root.rename(layout.root.with_name("wrong"))
    away.rename(layout.root)
    await until(lambda: inbox.acked == [b"body"])
    assert reported.failing == {}


async def test_a_document_larger_than_the_disk_is_set_aside_and_others_are_written(
    tmp_path: Path, reported: ConnectedStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.folders.incoming.PAUSE_S_MIN", 0.01)
    monkeypatch.setattr("semq.folders.incoming.PAUSE_S_MAX", 0.01)
    root, inbox = tmp_path / "root", FolderInbox()
    root.mkdir()
    with mounted(root, "-t", "tmpfs", "-o", "size=2m", "tmpfs"):
        layout = Layout(root)
        layout.make()
        client: Any = inbox
        task = asyncio.create_task(Incoming(layout, "", client, reported.states).run(lambda: None))
        inbox.deliver("big", AppKey("", "", "", "big"), bytes(3 << 20))
        await until(lambda: inbox.rejected)
        assert ["SEMQ-1347" in reason for reason in inbox.parked] == [True]
        (layout.root / "filler").write_bytes(bytes(1 << 20))
        inbox.deliver("middle", AppKey("", "", "", "middle"), bytes(3 << 19))
        await until(lambda: bool(reported.failing))
        for number in range(5):
            inbox.deliver(str(number), AppKey("", "", "", str(number)), b"small")
        await until(lambda: inbox.acked == [b"small"] * 5)
        assert "1.5 MiB needed" in reported.failing[str(layout.arrived)].error  # although others were written
        assert {path.name for path in layout.arrived.rglob("*") if "big" in path.name or "middle" in path.name} == set()
        (layout.root / "filler").unlink()
        await until(lambda: len(inbox.acked) == 6)
        assert reported.failing == {}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_documents_of_a_sender_whose_folder_cannot_be_written_stop_no_others(
    layout: Layout, inbox: FolderInbox, reported: ConnectedStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    (layout.arrived / "10009").write_bytes(b"a file where the folder of the sender has to be")
    for number in range(PREFETCH + 8):
        inbox.deliver(f"bad{number}", AppKey("", "order", "", str(number)), b"bad", source="1.10009")
    inbox.deliver("good", AppKey("", "", "", "good"), b"good")
    await until(lambda: inbox.acked == [b"good"])
    assert reported.failing
    (layout.arrived / "10009").unlink()
    await until(lambda: len(inbox.acked) == PREFETCH + 9)
    assert reported.failing == {}


async def test_a_document_that_its_folder_never_takes_is_set_aside_when_others_were_taken(
    layout: Layout, reported: ConnectedStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PAUSE_S_MIN", "PAUSE_S_MAX"):
        monkeypatch.setattr(f"semq.folders.incoming.{name}", 0.01)
    write = Layout.write_document

    def write_except_one(self: Layout, path: Path, *more: Any) -> None:
        if path.name == "bad":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        write(self, path, *more)

    monkeypatch.setattr(Layout, "write_document", write_except_one)
    inbox: Any = FolderInbox()
    task = asyncio.create_task(Incoming(layout, "", inbox, reported.states).run(lambda: None))
    inbox.deliver("bad", AppKey("", "", "", "bad"), b"bad")
    await until(lambda: reported.failing and reported.failing[str(layout.arrived)].failures > 20)
    assert not inbox.rejected
    for number in range(12):
        inbox.deliver(str(number), AppKey("", "", "", str(number)), b"good")
    await until(lambda: inbox.rejected)
    assert ["SEMQ-1348" in reason for reason in inbox.parked] == [True]
    assert reported.failing == {}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_repeated_delivery_replaces_the_first_one(layout: Layout, inbox: FolderInbox) -> None:
    away = layout.arrived.rename(layout.root / "away")
    layout.arrived.write_bytes(b"a file where a folder has to be")
    with capture_logs() as log_lines:
        first = inbox.deliver("1", AppKey("", "", "", "x"), b"first")
        await until(lambda: any(line["event"] == "document_not_written" for line in log_lines))
    inbox.deliver("1", AppKey("", "", "", "x"), b"second")
    await until(inbox.documents.empty)
    first._channel.is_open = False  # type: ignore[union-attr]
    layout.arrived.unlink()
    away.rename(layout.arrived)
    await until(lambda: inbox.acked == [b"second"])
    assert files(layout) == {"10008/x": b"second"}


async def test_a_repeated_delivery_waits_while_the_note_of_the_first_one_cannot_be_read(
    layout: Layout, inbox: FolderInbox, reported: ConnectedStates
) -> None:
    inbox.deliver("1", AppKey("", "", "", "x"), b"first")
    await until(lambda: inbox.acked == [b"first"])
    note = note_of(layout.arrived / "10008" / "x")
    away = note.rename(layout.root / "away")
    note.symlink_to(note)
    inbox.deliver("1", AppKey("", "", "", "x"), b"second")
    await until(lambda: reported.failing or len(inbox.acked) == 2)
    note.unlink()
    away.rename(note)
    await until(lambda: inbox.acked == [b"first", b"second"])
    assert reported.failing == {}
    assert files(layout) == {"10008/x": b"second"}


@pytest.fixture
async def restart(layout: Layout) -> AsyncIterator[Callable[[FolderInbox], Awaitable[None]]]:
    """Yield a function that starts the section of an inbox, or ends it and starts it again."""
    running: list[asyncio.Task[None]] = []
    incoming: dict[FolderInbox, Incoming] = {}

    async def end() -> None:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def start(inbox: FolderInbox) -> None:
        await end()
        client: Any = inbox
        section = incoming.setdefault(inbox, Incoming(layout, "", client, ConnectedStates().states))
        running[:] = [asyncio.create_task(section.run(lambda: None))]

    yield start
    for document in chain.from_iterable(inbox.slow_documents for inbox in incoming):
        document.may_continue.set()
    await end()


async def test_the_note_is_there_before_the_document_appears(
    layout: Layout, restart: Callable[[FolderInbox], Awaitable[None]]
) -> None:
    """A program that watches for documents finds the note of each (docs/applications/folders.md)."""
    inbox = FolderInbox()
    await restart(inbox)
    document = inbox.deliver_slowly("1", AppKey("", "", "", "x"), b"body")
    await until(document.is_begun.is_set)
    present = sorted(path.name for path in (layout.arrived / "10008").iterdir())
    document.may_continue.set()
    await until(lambda: inbox.acked == [b"body"])
    assert present == [".x.new", "x.semq.json"]
    assert sorted(path.name for path in (layout.arrived / "10008").iterdir()) == ["x", "x.semq.json"]


async def test_a_document_is_written_again_when_the_thread_of_an_ended_section_has_written_it(
    layout: Layout, restart: Callable[[FolderInbox], Awaitable[None]]
) -> None:
    inbox, key = FolderInbox(), AppKey("", "", "", "x")
    await restart(inbox)
    first = inbox.deliver_slowly("1", key, b"body")
    await until(first.is_begun.is_set)
    await restart(inbox)
    second = inbox.deliver_slowly("1", key, b"body")
    inbox.deliver("2", AppKey("", "", "", "y"), b"beside")
    await until(lambda: inbox.acked == [b"beside"])
    was_begun = second.is_begun.is_set()
    first.may_continue.set()
    await until(lambda: "10008/x" in files(layout))
    visible = files(layout)["10008/x"]
    await until(second.is_begun.is_set)
    second.may_continue.set()
    await until(lambda: inbox.acked == [b"beside", b"body"])
    assert not was_begun
    assert visible == b"body"


async def test_a_path_stays_reserved_until_the_thread_of_an_ended_section_has_written_it(
    layout: Layout, restart: Callable[[FolderInbox], Awaitable[None]]
) -> None:
    inbox, key = FolderInbox(), AppKey("", "", "", "x")
    await restart(inbox)
    first = inbox.deliver_slowly("1", key, b"first")
    await until(first.is_begun.is_set)
    await restart(inbox)
    second = inbox.deliver_slowly("2", key, b"second")
    await until(second.is_begun.is_set)
    first.may_continue.set()
    visible = await until(lambda: list(files(layout).values()))
    second.may_continue.set()
    await until(lambda: inbox.acked == [b"second"])
    inbox.deliver("1", key, b"first")
    await until(lambda: inbox.acked == [b"second", b"first"])
    assert visible == [b"first"]
    assert sorted(files(layout).values()) == [b"first", b"second"]
