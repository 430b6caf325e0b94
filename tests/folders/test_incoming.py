"""Documents of an inbox as files: names from senders, and repeated deliveries."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from semq.app import Document
from semq.folders.incoming import Incoming
from semq.folders.layout import Layout
from semq.umx_t.app_key import AppKey
from tests.service.companion.reported import Reported
from tests.waiting import until


class FolderInbox:
    """An inbox filled by the test."""

    def __init__(self) -> None:
        self.documents: asyncio.Queue[Document] = asyncio.Queue()
        self.acked: list[bytes] = []

    def deliver(self, lk0: str, key: AppKey, body: bytes) -> Document:
        channel = FolderChannel(lambda: self.acked.append(body))
        document = Document(lk0, "1.10008", "1.56001", key, body, "", _channel=channel)  # type: ignore[arg-type]
        self.documents.put_nowait(document)
        return document

    @asynccontextmanager
    async def receive(self, user: str, prefetch: int) -> AsyncIterator[AsyncIterator[Document]]:
        async def each() -> AsyncIterator[Document]:
            while True:
                yield await self.documents.get()

        yield each()


class FolderChannel:
    is_open = True

    def __init__(self, on_ack: Callable[[], object]) -> None:
        self._on_ack = on_ack

    def ack(self, tag: int) -> None:
        self._on_ack()


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path / "door")
    made.make()
    return made


@pytest.fixture
def reported() -> Reported:
    return Reported()


@pytest.fixture
async def inbox(layout: Layout, reported: Reported, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FolderInbox]:
    monkeypatch.setattr("semq.folders.incoming.AGAIN_S_MIN", 0.01)
    made: Any = FolderInbox()
    task = asyncio.create_task(Incoming(layout, "", made, reported.states).run(lambda: None))
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def files(layout: Layout) -> dict[str, bytes]:
    found = (path for path in layout.arrived.rglob("*") if path.is_file() and not path.name.endswith(".json"))
    return {str(path.relative_to(layout.arrived)): path.read_bytes() for path in found}


async def test_a_document_named_like_a_folder_holds_up_no_other(layout: Layout, inbox: FolderInbox) -> None:
    inbox.deliver("1", AppKey("", "", "", "order"), b"a file")
    await until(lambda: inbox.acked == [b"a file"])
    inbox.deliver("2", AppKey("", "order", "", "x"), b"in a folder")
    await until(lambda: len(inbox.acked) == 2)
    inbox.deliver("3", AppKey("", "", "", "order~folder"), b"a file again")
    await until(lambda: len(inbox.acked) == 3)
    assert sorted(files(layout).values()) == [b"a file", b"a file again", b"in a folder"]


async def test_an_unreadable_folder_is_tried_again(layout: Layout, inbox: FolderInbox, reported: Reported) -> None:
    away = layout.arrived.rename(layout.root / "away")
    layout.arrived.symlink_to("y" * 300)  # a name that is too long for any file system
    with capture_logs() as result:
        inbox.deliver("1", AppKey("", "order", "", "x"), b"body")
        await until(lambda: any(line["event"] == "document_not_written" for line in result))
        await until(lambda: bool(reported.failing))
    assert "too long" in reported.failing[str(layout.arrived)].error
    layout.arrived.unlink()
    away.rename(layout.arrived)
    await until(lambda: inbox.acked == [b"body"])
    assert reported.failing == {}


async def test_a_second_delivery_takes_the_place_of_the_first(layout: Layout, inbox: FolderInbox) -> None:
    away = layout.arrived.rename(layout.root / "away")
    layout.arrived.write_bytes(b"a file where a folder has to be")
    with capture_logs() as result:
        first = inbox.deliver("1", AppKey("", "", "", "x"), b"first")
        await until(lambda: any(line["event"] == "document_not_written" for line in result))
    inbox.deliver("1", AppKey("", "", "", "x"), b"second")
    await until(inbox.documents.empty)
    first._channel.is_open = False  # type: ignore[union-attr]
    layout.arrived.unlink()
    away.rename(layout.arrived)
    await until(lambda: inbox.acked == [b"second"])
    assert files(layout) == {"10008/x": b"second"}
