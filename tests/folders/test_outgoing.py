"""Outgoing files."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from structlog.testing import capture_logs

from semq.app import Client, NodeBusy, NodeUnreachable, Sent
from semq.clock import SystemClock
from semq.config.sections import FolderSection
from semq.folders.layout import Layout, Offered, read_note
from semq.folders.outgoing import PAUSE_S_MAX, Outgoing, _WaitingTarget
from semq.foreign_text import shown
from tests.clocks import ManualClock
from tests.folders.long_paths import layout_with_long_path
from tests.service.companion.reported import ConnectedStates
from tests.waiting import until


class AcceptingNode:
    """A node that accepts a document once for each token."""

    def __init__(self) -> None:
        self.accepted: dict[str, tuple[str, bytes]] = {}  #: by token: target and body
        self.busy: set[str] = set()  #: targets
        self.requests = 0
        self.during_send: Callable[[], object] = lambda: None

    async def send(self, target: str, body: bytes, *, token: str, **_: Any) -> Sent:
        self.requests += 1
        if target in self.busy:
            raise NodeBusy({"code": "SEMQ-1204", "text": "The quota is reached."})
        repeated = token in self.accepted
        self.accepted.setdefault(token, (target, body))
        self.during_send()
        return Sent(f"1.10008.1.1.{len(self.accepted)}.1", "", repeated, token)

    @property
    def bodies(self) -> list[bytes]:
        return sorted(body for _, body in self.accepted.values())


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "root")
    layout.make()
    return layout


@pytest.fixture
def node() -> AcceptingNode:
    return AcceptingNode()


Start = Callable[..., Awaitable[Outgoing]]


@pytest.fixture
async def start(layout: Layout, node: AcceptingNode) -> AsyncIterator[Start]:
    tasks: list[asyncio.Task[None]] = []

    async def changes() -> AsyncIterator[None]:
        while True:
            await asyncio.sleep(0.01)
            yield

    async def begin(reported_changes: AsyncIterator[object] | None = None, **settings: Any) -> Outgoing:
        folder = FolderSection(path=layout.root, settle_s=0, **settings)
        outgoing = Outgoing(layout, folder, 1000, as_client(node), SystemClock(), ConnectedStates().states)
        tasks.append(asyncio.create_task(outgoing.run(reported_changes or changes())))
        return outgoing

    yield begin
    for task in tasks:
        assert not task.done() or task.exception() is None
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def as_client(node: Any) -> Client:
    client: Client = node
    return client


def put(layout: Layout, relative_path: str, body: bytes) -> Path:
    path = layout.out / relative_path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(".unfinished")
    unfinished.write_bytes(body)
    unfinished.replace(path)
    return path


async def test_the_errors_of_all_files_that_fail_at_once_are_looked_at(
    layout: Layout, node: AcceptingNode, start: Start
) -> None:
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    together = asyncio.Event()

    async def fail(*_: Any, **__: Any) -> Sent:
        node.requests += 1
        await together.wait()
        raise NodeUnreachable(address="", cause="")

    node.send = fail  # type: ignore[method-assign]
    for name in ("a", "b"):
        put(layout, f"56001/{name}.xml", b"<Order/>")
    await start()
    await until(lambda: node.requests == 2)
    together.set()
    await until(lambda: node.requests > 2)
    gc.collect()
    assert unseen == []


def in_sent(layout: Layout) -> list[bytes]:
    return sorted(path.read_bytes() for path in layout.sent.rglob("*.xml"))


@pytest.mark.parametrize("keep_sent", [True, False])
async def test_a_file_that_replaces_another_one_during_its_transfer_is_sent_too(
    layout: Layout, node: AcceptingNode, start: Start, keep_sent: bool
) -> None:
    put(layout, "56001/a.xml", b"first")

    def replace() -> None:
        node.during_send = lambda: None
        put(layout, "56001/a.xml", b"second")

    node.during_send = replace
    await start(keep_sent=keep_sent)
    await until(lambda: node.bodies == [b"first", b"second"])
    await until(lambda: not list(layout.out.rglob("*.xml")))
    await until(lambda: in_sent(layout) == ([b"second"] if keep_sent else []))
    await until(lambda: len(list(layout.sent.rglob("*.json"))) == int(keep_sent))


async def test_a_file_that_was_moved_back_is_sent_again(layout: Layout, node: AcceptingNode, start: Start) -> None:
    path = put(layout, "56001/a.xml", b"refused by its receiver")
    await start()
    await until(lambda: in_sent(layout))
    next(layout.sent.rglob("a.xml")).replace(path)
    await until(lambda: len(node.accepted) == 2)


async def test_a_file_waits_for_its_own_target_only(layout: Layout, node: AcceptingNode, start: Start) -> None:
    node.busy = {"56001"}
    for number in range(100):
        os.utime(put(layout, f"56001/{number}.xml", b"held"), (1, 1))
    put(layout, "56002/a.xml", b"free")
    await start()
    await until(lambda: in_sent(layout) == [b"free"])
    assert node.requests < 100  # files for a paused target are not offered again
    node.busy = set()
    await until(lambda: len(in_sent(layout)) == 101)


async def test_the_end_of_the_wait_for_a_target_causes_no_further_searches(layout: Layout, node: AcceptingNode) -> None:
    node.busy = {"56001"}
    clock = SystemClock()
    settings = FolderSection(path=layout.root, settle_s=0)
    outgoing = Outgoing(layout, settings, 1000, as_client(node), clock, ConnectedStates().states)
    path = put(layout, "56001/a.xml", b"held")
    while not node.requests:
        await outgoing._search()
    path.unlink()
    outgoing._waiting_targets["56001"] = _WaitingTarget(clock.monotonic(), 1)
    assert await outgoing._search() > PAUSE_S_MAX / 2


async def test_a_folder_that_cannot_be_read_is_reported_until_it_can(tmp_path: Path, node: AcceptingNode) -> None:
    layout, folder = layout_with_long_path(tmp_path)
    settings, reported = FolderSection(path=layout.root, settle_s=0), ConnectedStates()
    outgoing = Outgoing(layout, settings, 1000, as_client(node), SystemClock(), reported.states)
    put(layout, "56001/good.xml", b"good")
    while not node.requests:
        await outgoing._search()
    assert "too long" in reported.failing[shown(str(layout.out))].error
    rmtree(folder)
    await outgoing._search()
    assert reported.failing == {}


async def test_a_name_that_is_not_utf_8_is_refused_and_other_files_are_sent(layout: Layout, start: Start) -> None:
    put(layout, "56001/" + os.fsdecode(b"\xff\xfe.xml"), b"bad")
    put(layout, "56001/" + "文" * 83 + ".xml", b"long")
    put(layout, "56001/good.xml", b"good")
    await start()
    await until(lambda: in_sent(layout) == [b"good", b"long"])
    [refused] = await until(lambda: list(layout.failed.rglob("*.xml")))
    assert read_note(refused)["code"] == "SEMQ-1345"
    assert not list(layout.out.rglob("*.xml"))


async def test_a_file_that_cannot_be_moved_is_moved_later(
    layout: Layout, node: AcceptingNode, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.folders.outgoing.SEARCH_S", 0.1)
    layout.sent.rename(layout.root / "away")
    layout.sent.write_bytes(b"a file where a folder has to be")
    put(layout, "56001/a.xml", b"body")
    await start()
    await until(lambda: node.accepted)
    put(layout, "56001/b.txt", b"later")
    await until(lambda: len(node.accepted) == 2)
    layout.sent.unlink()  # the folder is then made again
    await until(lambda: in_sent(layout) == [b"body"])
    assert len(node.accepted) == 2


async def test_files_are_found_although_the_system_reports_no_changes(
    layout: Layout, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.folders.outgoing.SEARCH_S", 0.1)

    async def no_changes() -> AsyncIterator[object]:
        if layout.root.exists():
            raise OSError("OS file watch limit reached")
        yield None

    await start(no_changes())
    put(layout, "56001/a.xml", b"body")
    await until(lambda: in_sent(layout) == [b"body"])


async def test_a_file_that_is_put_again_unchanged_is_sent_again_and_that_is_noted(
    layout: Layout, node: AcceptingNode, start: Start
) -> None:
    """`rsync -a` does this each time, because the file is not where it put it."""
    await start()
    for number in (1, 2):
        os.utime(put(layout, "56001/a.xml", b"body"), (1, 1))
        await until(lambda: len(in_sent(layout)) == number)  # noqa: B023 - awaited in the same turn
    folder = layout.sent / "1970-01-01" / "56001"
    notes = {path.name: read_note(path) for path in folder.glob("*.xml")}
    first = notes.pop("a.xml")
    [second] = notes.values()
    assert second["sent_before_as"] == first["lk0"]
    assert "sent_before_as" not in first


async def test_files_that_are_not_sent_are_logged_once_and_reported(
    layout: Layout, node: AcceptingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, reported = FolderSection(path=layout.root, settle_s=0), ConnectedStates()
    outgoing = Outgoing(layout, settings, 1000, as_client(node), SystemClock(), reported.states)
    link, partial = layout.out / "56001" / "link.xml", put(layout, "56001/big.xml.filepart", b"torn")
    put(layout, "56001/empty.xml", b"")
    with capture_logs() as lines:
        await outgoing._search()
        assert reported.failing == {}  # they may still be written
        link.symlink_to(partial)
        for _ in range(2):
            await outgoing._search()
        assert "link.xml" in reported.failing[shown(str(layout.out))].error
        monkeypatch.setattr("semq.folders.outgoing.IGNORED_S", 0.0)
        await outgoing._search()
    assert "3" in reported.failing[shown(str(layout.out))].error
    ignored = [Path(line["file"]).name for line in lines if line["event"] == "file_ignored"]
    assert ignored == ["link.xml", "big.xml.filepart", "empty.xml"]
    assert node.requests == 0
    rmtree(layout.out / "56001")
    await outgoing._search()
    assert reported.failing == {}


def test_a_file_is_complete_when_it_has_not_changed_for_the_configured_time(
    layout: Layout, node: AcceptingNode
) -> None:
    clock = ManualClock(0.0)
    settings = FolderSection(path=layout.root, settle_s=2)
    outgoing = Outgoing(layout, settings, 1000, as_client(node), clock, ConnectedStates().states)
    first = Offered(layout.out / "a", 1, 1, 1)
    changed = first._replace(size=2)
    found = []
    for at, file in ((0.0, first), (1.9, first), (1.95, changed), (3.9, changed), (3.96, changed)):
        clock.now = at
        found.append(outgoing._complete([file]))
    assert found == [[], [], [], [], [changed]]
