"""Two processes of one node on one database: one serves, the other waits."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any

import psycopg
import pytest
from structlog.testing import capture_logs

from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.clock import SystemClock
from semq.config import load
from semq.service import process
from semq.service.process import EXIT_UNAVAILABLE
from semq.store.postgres.errors import StoreFenced, StoreUnavailable
from semq.transport.client_channel import ClientChannel
from tests.cli.command import environment
from tests.prepared.client import RUN_MODULE, PreparedProcess
from tests.service.inprocess import HUB_CONFIG, InProcess, lose_store
from tests.transport.publishing import publish_and_wait
from tests.waiting import until


class HubProcess:
    """A hub as a process, with its output."""

    def __init__(self, file: Path) -> None:
        read_end, write_end = os.pipe()
        with os.fdopen(write_end, "wb") as errors:
            self.process = PreparedProcess(
                [*RUN_MODULE, "platform_node", "--config", str(file)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=errors, cwd=file.parent, env=environment({}), start_new_session=True, preexec_fn=None,
            )  # fmt: skip
        self.reported: list[dict[str, Any]] = []  #: events of the log
        self._ready = asyncio.Event()
        self._reading = asyncio.gather(self._read_out(), self._read_log(os.fdopen(read_end, "rb")))

    async def _read_out(self) -> None:
        async for line in await _reader_of(self.process.stdout):
            if line.startswith(b"ready "):
                self._ready.set()

    async def _read_log(self, errors: IO[bytes]) -> None:
        async for line in await _reader_of(errors):
            self.reported.append(json.loads(line) if line.startswith(b"{") else {"event": line.decode()})

    @property
    def is_ready(self) -> bool:
        return self._ready.is_set()

    async def wait_ready(self) -> None:
        async with asyncio.timeout(120):
            await self._ready.wait()

    async def wait_logged(self, event: str) -> None:
        await until(lambda: self.has_logged(event), 120)

    def has_logged(self, event: str) -> bool:
        return any(line["event"] == event for line in self.reported)

    async def wait_ended(self) -> int:
        async with asyncio.timeout(120):
            await self._reading
            return await asyncio.to_thread(self.process.wait)

    async def remove(self) -> None:
        self.process.kill()
        await self.wait_ended()


async def _reader_of(pipe: IO[bytes]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


class HubProcesses:
    """Starts processes of one hub."""

    def __init__(self, stack: AsyncExitStack, folder: Path, url: str) -> None:
        self.url = url
        self._stack = stack
        self._folder = folder

    async def start(self, name: str) -> HubProcess:
        file = self._folder / f"{name}.toml"
        text = HUB_CONFIG.replace('data_dir = "hub"', f'data_dir = "{name}"')
        file.write_text(f'{text}\n[database]\nurl = "{self.url}"\n')
        hub_process = HubProcess(file)
        self._stack.push_async_callback(hub_process.remove)
        return hub_process

    def expire_lease(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("UPDATE store_lease SET until = clock_timestamp()")


@pytest.fixture
async def processes(tmp_path: Path, new_database: Callable[[], str]) -> AsyncIterator[HubProcesses]:
    async with AsyncExitStack() as stack:
        yield HubProcesses(stack, tmp_path, new_database())


async def test_a_second_process_is_a_standby_and_a_process_that_lost_its_lease_ends(processes: HubProcesses) -> None:
    first = await processes.start("one")
    await first.wait_ready()
    second = await processes.start("two")
    await second.wait_logged("standby")
    first.process.send_signal(signal.SIGSTOP)  # it can neither renew the lease nor end
    processes.expire_lease()
    await second.wait_ready()
    assert second.has_logged("standby_over")
    third = await processes.start("three")
    await third.wait_logged("standby")
    first.process.send_signal(signal.SIGCONT)
    assert await first.wait_ended() == EXIT_UNAVAILABLE
    assert first.has_logged("fenced")
    assert "SEMQ-3002" in first.reported[-1]["event"]
    second.process.send_signal(signal.SIGTERM)  # an orderly end releases the lease
    assert await second.wait_ended() == 0
    await third.wait_ready()


async def test_a_killed_node_restarts_at_once_and_a_standby_takes_over_or_can_be_stopped(
    processes: HubProcesses,
) -> None:
    first = await processes.start("one")
    await first.wait_ready()
    first.process.kill()
    await first.wait_ended()
    restarted = await processes.start("one")
    await restarted.wait_ready()
    assert not restarted.has_logged("standby")
    beside = await processes.start("one")  # in the same folder
    await beside.wait_logged("standby")
    elsewhere = await processes.start("two")
    await elsewhere.wait_logged("standby")
    elsewhere.process.send_signal(signal.SIGTERM)
    assert await elsewhere.wait_ended() == 0
    assert not elsewhere.is_ready
    restarted.process.kill()
    await beside.wait_ready()


class OpeningNode:
    """A node that opens its database, and then waits as a standby without end."""

    endpoint = ""

    def __init__(self) -> None:
        self.is_opening, self.is_open = asyncio.Event(), asyncio.Event()
        self.is_standing_by = False

    async def start(self) -> None:
        self.is_opening.set()
        await self.is_open.wait()
        self.is_standing_by = True
        await asyncio.Event().wait()

    async def wait_failed(self) -> None:
        raise AssertionError("the node has not started")

    async def stop(self) -> None:
        self.is_standing_by = False

    def reload_soon(self) -> None:
        """Do nothing."""


async def test_a_process_ends_if_it_becomes_a_standby_after_sigterm() -> None:
    node = OpeningNode()
    running = asyncio.create_task(process.run(node))
    await node.is_opening.wait()
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.sleep(0.05)  # the signal is handled before the node is a standby
    node.is_open.set()
    done, _ = await asyncio.wait([running], timeout=20)
    assert done
    assert not node.is_standing_by


@pytest.mark.parametrize(("epoch", "went_back"), [("epoch + 1", 0), ("epoch - 1", 1)])
async def test_a_store_that_another_owner_has_when_the_database_is_back_ends_the_process(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch, epoch: str, went_back: int
) -> None:
    """It was taken meanwhile, or the database went back to a former owner."""
    hub = await inprocess.hub()
    back = await lose_store(hub, monkeypatch)
    with psycopg.connect(hub.store.url, autocommit=True) as connection:
        connection.execute(f"UPDATE store_lease SET epoch = {epoch}, owner = '2.hub.1.1 elsewhere f00 -'".encode())
    back.set()
    async with asyncio.timeout(60):
        with pytest.raises(StoreFenced) as fenced:
            await hub.wait_failed()
    assert fenced.value.facts["owner"] == "2.hub.1.1 elsewhere f00 -"
    assert hub.store.counters.went_back == went_back


@pytest.mark.parametrize(("is_noticed", "raised"), [(True, StoreFenced), (False, StoreUnavailable)])
async def test_a_start_says_that_another_process_has_taken_the_store_meanwhile(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch, is_noticed: bool, raised: type[StoreUnavailable]
) -> None:
    """A process that is suspended during its start may lose its store; the start raises this, not a later error.

    If the start has failed before this is noticed, nobody waits for it, and asyncio must not report that.
    """
    settings = inprocess.settings("hub", HUB_CONFIG)
    hub = HubNode(settings, SystemClock())
    inprocess.stack.push_async_callback(hub.stop)

    async def begin_sessions() -> None:
        with psycopg.connect(hub.store.url, autocommit=True) as connection:
            connection.execute("UPDATE store_lease SET epoch = epoch + 1, owner = '2.hub.1.1 elsewhere f00 -'")
        if is_noticed:
            await until(hub._failed.done)
        raise StoreUnavailable

    reports = list[object]()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
    monkeypatch.setattr(hub, "begin_sessions", begin_sessions)
    async with asyncio.timeout(60):
        with pytest.raises(StoreUnavailable) as caught:
            await hub.start()
        await until(hub._failed.done)
    del hub._failed
    assert (caught.type, reports) == (raised, [])


def other_process_of_hub(inprocess: InProcess) -> HubNode:
    """Return a node that is not started yet, with the database of the hub."""
    text = (inprocess.folder / "hub.toml").read_text().replace('data_dir = "hub"', 'data_dir = "other"')
    (inprocess.folder / "other.toml").write_text(text)
    other = HubNode(load(inprocess.folder / "other.toml", {}), SystemClock())
    inprocess.stack.push_async_callback(other.stop)
    return other


async def publish(channel: ClientChannel, body: bytes) -> None:
    header = ContentHeader.build(len(body), Properties(delivery_mode=2))
    assert await publish_and_wait(channel, "", "q", header, body)


async def test_a_process_ends_if_another_has_changed_the_queues_while_it_had_lost_the_store(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process has ended, so that the store is free. But the queues of the first one are out of date."""
    hub = await inprocess.hub()
    channel = await (await inprocess.client(hub)).open_channel()
    await channel.confirm_select()
    await channel.declare_queue("q", durable=True)
    await publish(channel, b"first")
    other = other_process_of_hub(inprocess)
    back = await lose_store(hub, monkeypatch)
    with psycopg.connect(hub.store.url, autocommit=True) as connection:
        connection.execute("UPDATE store_lease SET until = clock_timestamp()")
        await other.start()
        channel = await (await inprocess.client(other)).open_channel()
        await channel.confirm_select()
        delivered = await channel.get("q")
        assert delivered is not None
        channel.ack(delivered.delivery_tag)
        await publish(channel, b"second")
        await other.stop()
        with capture_logs() as logged:
            back.set()
            await until(lambda: not hub._is_restarting)
        with pytest.raises(StoreFenced):
            hub._failed.result()
        assert "SEMQ-3002" in next(line["error"] for line in logged if line["event"] == "fenced")
        await hub.stop()
        assert connection.execute("SELECT body FROM broker_message").fetchall() == [(b"second",)]
        assert connection.execute("SELECT epoch FROM store_lease").fetchone() == (2,)


async def test_a_standby_loads_its_identity_again_when_it_takes_over(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = await inprocess.hub()
    other = other_process_of_hub(inprocess)
    prepared: list[bool] = []
    prepare = other.prepare

    async def note_and_prepare() -> None:
        prepared.append(hub.store._writer is None)
        await prepare()

    monkeypatch.setattr(other, "prepare", note_and_prepare)
    starting = asyncio.create_task(other.start())
    await until(lambda: other.is_standing_by)
    await hub.stop()
    async with asyncio.timeout(60):
        await starting
    assert prepared == [False, True]
    assert not other.is_standing_by
