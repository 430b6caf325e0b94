"""A node continues after the loss of its store or embedded server; a failed start leaves a usable store."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, text

from platform_node.node import HubNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.clock import SystemClock
from semq.config import load
from semq.installation.empty_database import copy_empty_database
from semq.store.broker.operations import StoredState
from semq.store.broker.store import PostgresMessageStore
from semq.store.embedded.errors import ServerFailed
from semq.store.embedded.server import EmbeddedPostgres
from semq.store.postgres import writer
from semq.store.postgres.errors import StoreForeign, StoreUnavailable
from semq.store.rows import Event, Side
from semq.umx_t.retry import MIDDLE
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import HUB_CONFIG, InProcess, ask, cut_off, linked, lose_store
from tests.transport.publishing import publish_and_wait
from tests.waiting import until


async def engine_starts(node: HubNode, inprocess: InProcess) -> int:
    status = (await ask(await inprocess.client(node), "node.status"))["result"]
    return int(status["engine_starts"])


@pytest.fixture
async def hub(inprocess: InProcess) -> HubNode:
    return await inprocess.hub()


async def test_a_store_that_is_lost_again_while_sessions_begin_is_opened_again(
    hub: HubNode, inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_sessions, store_lost = hub.begin_sessions, hub._store_lost
    lost = asyncio.Event()

    def on_lost(error: StoreUnavailable) -> None:
        store_lost(error)
        lost.set()

    async def lose_once_more() -> None:
        if hub.engine_starts == 2:
            lost.clear()
            cut_off(hub)
            await lost.wait()
        await begin_sessions()

    monkeypatch.setattr(hub.store, "_on_lost", on_lost)
    monkeypatch.setattr(hub, "begin_sessions", lose_once_more)
    cut_off(hub)
    await until(lambda: hub.engine_starts == 3 and hub._restart is not None and hub._restart.done())
    assert await engine_starts(hub, inprocess) == 3
    assert hub.store._writer is not None


@pytest.mark.parametrize("where", ["revive", "start"])
async def test_a_server_that_dies_again_while_it_recovers_is_started_again(
    hub: HubNode, inprocess: InProcess, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    part = hub._database if where == "revive" else hub.store
    original: Callable[..., object] = getattr(part, where)
    attempts: list[str] = []

    async def fail_twice() -> object:
        attempts.append(where)
        if len(attempts) < 3:
            raise ServerFailed("The server died again.")
        return await original()  # type: ignore[misc]

    monkeypatch.setattr(part, where, fail_twice)
    cut_off(hub)
    await until(lambda: hub.engine_starts == 2)
    assert len(attempts) == 3
    assert await engine_starts(hub, inprocess) == 2


async def test_pauses_grow_between_openings_that_do_not_last(hub: HubNode, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses, clock = list[float](), Ticks()
    sleep = asyncio.sleep

    async def note_pause(seconds: float) -> None:
        if asyncio.current_task() is hub._restart:
            pauses.append(seconds)
            seconds = 0
        await sleep(seconds)

    monkeypatch.setattr("semq.service.node.asyncio.sleep", note_pause)
    monkeypatch.setattr(hub, "clock", clock)
    clock.now = 1_000.0

    async def lose_store() -> None:
        starts = hub.engine_starts
        cut_off(hub)
        await until(lambda: hub.engine_starts > starts and hub._restart is not None and hub._restart.done())

    for lasted_s, pause_s in ((1_000, 0.0), (1, 0.2), (59, 0.4), (3, 0.8), (60, 0.0), (1, 0.2), (2, 0.4)):
        clock.now += lasted_s
        await lose_store()
        assert pauses == ([pytest.approx(pause_s)] if pause_s else []), (lasted_s, pauses)
        pauses.clear()


class Ticks(SystemClock):
    """A clock that a test sets, with pauses in the middle of their range."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def random(self) -> float:
        return MIDDLE


async def test_changes_that_clients_make_while_the_store_is_lost_are_stored_when_it_is_open_again(
    hub: HubNode, inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients were told that their changes are not stored, but the broker keeps them in memory."""
    channel = await (await inprocess.client(hub)).open_channel()
    await channel.confirm_select()
    await channel.declare_queue("old", durable=True)
    for body in (b"1", b"2"):
        assert await publish_and_wait(channel, "", "old", persistent(body), body)
    delivered = await channel.get("old")
    assert delivered is not None
    back = await lose_store(hub, monkeypatch)
    channel.ack(delivered.delivery_tag)
    assert not await publish_and_wait(channel, "", "old", persistent(b"3"), b"3")
    with pytest.raises(AmqpError):
        await channel.declare_queue("new", durable=True)
    back.set()
    await until(lambda: hub.engine_starts == 2 and hub._restart is not None and hub._restart.done())
    await until(lambda: not hub.server.journal.has_unwritten)
    with psycopg.connect(hub.store.url) as connection:
        assert connection.execute("SELECT name FROM broker_queue ORDER BY 1").fetchall() == [("new",), ("old",)]
        assert connection.execute("SELECT body FROM broker_message ORDER BY 1").fetchall() == [(b"2",), (b"3",)]


def persistent(body: bytes) -> ContentHeader:
    return ContentHeader.build(len(body), Properties(delivery_mode=2))


async def test_queries_that_fail_while_sessions_begin_are_repeated(
    hub: HubNode, inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_sessions, attempts = hub.begin_sessions, 0

    async def fail_twice() -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise StoreUnavailable("The server died again.")
        await begin_sessions()

    monkeypatch.setattr(hub, "begin_sessions", fail_twice)
    cut_off(hub)
    await until(lambda: hub._restart is not None and hub._restart.done())
    assert not hub._failed.done()
    assert (attempts, await engine_starts(hub, inprocess)) == (3, 2)


async def test_an_embedded_server_that_starts_again_at_another_port_is_found(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(HUB_CONFIG)
    copy_empty_database(tmp_path / "hub")
    hub = HubNode(load(file, {}), SystemClock())
    try:
        await hub.start()
        server, former = EmbeddedPostgres(tmp_path / "hub"), hub.store.url
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        port_file = tmp_path / "hub" / "postgres" / "port"
        port_file.unlink()  # otherwise the server would use its last port again
        await until(lambda: hub.engine_starts >= 2 and not hub._is_restarting)
        assert hub.store.url == server.url != former
    finally:
        await hub.stop()


async def test_an_embedded_server_that_dies_and_leaves_a_hanging_backend_is_started_again(tmp_path: Path) -> None:
    """The connection of the node shows no error, because the socket of the backend stays open."""
    file = tmp_path / "hub.toml"
    file.write_text(HUB_CONFIG)
    copy_empty_database(tmp_path / "hub")
    hub = HubNode(load(file, {}), SystemClock())
    try:
        await hub.start()
        server = EmbeddedPostgres(tmp_path / "hub")
        assert server.pid is not None
        assert hub.store._wire is not None
        os.kill(hub.store._wire.pid, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGKILL)

        def is_restarted() -> bool:
            if hub._failed.done():
                hub._failed.result()
            hub.clockwork.hasten("database")
            return hub.engine_starts >= 2 and not hub._is_restarting

        await until(is_restarted)
    finally:
        await hub.stop()


async def test_a_start_that_fails_before_the_queues_are_restored_notes_no_orderly_end(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = HubNode(inprocess.settings("hub", HUB_CONFIG), SystemClock())

    async def fail(store: PostgresMessageStore) -> StoredState:
        raise StoreUnavailable

    monkeypatch.setattr(PostgresMessageStore, "load", fail)
    with pytest.raises(StoreUnavailable):
        await node.start()
    await node.stop()
    with psycopg.connect(str(node.settings.database.dsn)) as connection:
        assert connection.execute("SELECT broker_ended FROM semq_meta").fetchall() == [(False,)]


async def test_a_node_does_not_start_on_the_database_of_another_node_and_changes_nothing_there(
    hub: HubNode, inprocess: InProcess, tmp_path: Path
) -> None:
    file = tmp_path / "other.toml"
    text = HUB_CONFIG.replace('id = "hub"', 'id = "other"').replace('data_dir = "hub"', 'data_dir = "other"')
    file.write_text(f'{text}\n[database]\nurl = "{hub.store.url}"\n')
    await hub.stop()
    with psycopg.connect(hub.store.url, autocommit=True) as connection:
        connection.execute("UPDATE semq_version SET version_num = '0001'")  # not migrated either
    node = HubNode(load(file, {}), SystemClock())
    try:
        with pytest.raises(StoreForeign) as caught:
            await node.start()
    finally:
        await node.stop()
    assert caught.value.facts == {"store": "2.hub.1.1", "configured": "2.other.1.1"}
    with psycopg.connect(hub.store.url) as connection:
        assert connection.execute("SELECT version_num FROM semq_version").fetchall() == [("0001",)]


async def test_a_start_that_fails_halfway_leaves_a_store_that_another_process_can_open(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start fails when the node has an engine and no AMQP server yet."""
    settings = inprocess.settings("hub", HUB_CONFIG)

    def fail(node: HubNode, settings: object) -> list[object]:
        raise ValueError("no users")

    with monkeypatch.context() as patch:
        patch.setattr(HubNode, "users_of", fail)
        node = HubNode(settings, SystemClock())
        with pytest.raises(ValueError, match="no users"):
            await node.start()
        await node.stop()
    again = HubNode(settings, SystemClock())
    inprocess.stack.push_async_callback(again.stop)
    await again.start()
    assert again.engine_starts == 1


async def test_a_hub_writes_what_it_has_forwarded_when_its_store_is_back(
    hub: HubNode, inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of a forwarded message may wait for a commit that the end of Postgres then prevents."""
    monkeypatch.setattr(writer, "LATER_S", 3600.0)
    a, b = [await inprocess.local(name, hub.port) for name in ("10008", "56001")]
    await linked(a, b)
    sender = await confirming(await inprocess.client(a))
    assert await publish(sender, "56001", b"order")
    await until(lambda: hub.engine.core.counters.counts["forwarded"])
    cut_off(hub)
    await until(lambda: hub.engine_starts == 2)
    monkeypatch.undo()
    query = f"SELECT count(*) FROM semq_ledger WHERE event = {Event.FORWARDED:d} AND side = {Side.HUB:d}"

    def count(connection: Connection) -> int:
        return int(connection.execute(text(query)).scalar_one())

    assert await until(lambda: hub.store.execute(count)) == 1
