"""Inboxes for polling clients: basic.get, correct counts, and unsettled documents that are delivered again."""

import asyncio

import psycopg
import pytest

from local_node.node import LocalNode
from semq.amqp.events import Got
from semq.transport.client_channel import ClientChannel
from semq.umx_t.status import AppStatus
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import InProcess, linked
from tests.waiting import until


@pytest.fixture
async def node(inprocess: InProcess) -> LocalNode:
    hub = await inprocess.hub()
    found = await inprocess.local("10008", hub.port)
    await linked(found)
    return found


async def fill(inprocess: InProcess, node: LocalNode, *bodies: bytes, to: str = "10008", **headers: str) -> None:
    """Send documents of this node to itself, until they are recorded."""
    channel = await confirming(await inprocess.client(node))
    before = rows(node)
    for body in bodies:
        assert await publish(channel, to, body, **headers)
    await until(lambda: rows(node) == before + len(bodies))


def rows(node: LocalNode) -> int:
    with psycopg.connect(node.store.url) as connection:
        found = connection.execute("SELECT count(*) FROM tb_0030").fetchone()
        assert found is not None
        return int(found[0])


def states(node: LocalNode) -> list[int]:
    with psycopg.connect(node.store.url) as connection:
        return [row[0] for row in connection.execute("SELECT app_status FROM tb_0030 ORDER BY app_status")]


async def polled(channel: ClientChannel, queue: str = "semq.inbox", no_ack: bool = False) -> Got | None:
    async with asyncio.timeout(60):
        return await channel.get(queue, no_ack)


async def counts(channel: ClientChannel, queue: str = "semq.inbox") -> tuple[int, int]:
    async with asyncio.timeout(60):
        result = await channel.declare_queue(queue, passive=True)
    return result.message_count, result.consumer_count


async def test_a_polling_client_gets_every_document_and_then_nothing(inprocess: InProcess, node: LocalNode) -> None:
    channel = await (await inprocess.client(node)).open_channel()
    assert await polled(channel) is None
    assert await counts(channel) == (0, 0)
    await fill(inprocess, node, b"1", b"2", b"3")
    await fill(inprocess, node, b"other", to="10008/buyer")
    assert await counts(channel) == (3, 0)
    assert await counts(channel, "semq.inbox.buyer") == (1, 0)
    left = []
    for body in (b"1", b"2", b"3"):
        got = await polled(channel)
        assert got is not None
        assert (bytes(got.body), got.redelivered) == (body, False)
        left.append(got.message_count)
        channel.ack(got.delivery_tag)
    assert left == [2, 1, 0]
    assert await polled(channel) is None
    got = await polled(channel, "semq.inbox.buyer", no_ack=True)
    assert got is not None
    assert bytes(got.body) == b"other"
    await until(lambda: rows(node) == 0)
    assert await counts(channel) == (0, 0)


async def test_a_polled_document_is_settled_like_a_delivery(inprocess: InProcess, node: LocalNode) -> None:
    link = await inprocess.client(node)
    channel = await link.open_channel()
    await fill(inprocess, node, b"1", b"2")
    first, second = await polled(channel), await polled(channel)
    assert first is not None
    assert second is not None
    assert await counts(channel) == (0, 0)
    channel.nack(first.delivery_tag, requeue=True)
    again = await polled(channel)
    assert again is not None
    assert (bytes(again.body), again.redelivered) == (b"1", True)
    channel.close()  # returns both documents

    channel = await link.open_channel()
    await until(lambda: not node.engine.handover.out)
    assert await counts(channel) == (2, 0)
    got = [await polled(channel) for _ in range(3)]
    assert [(bytes(one.body), one.redelivered) if one else None for one in got] == [(b"1", True), (b"2", True), None]
    assert got[0] is not None
    channel.reject(got[0].delivery_tag, requeue=False)

    await until(lambda: states(node) == [AppStatus.NEW, AppStatus.PARKED])


async def test_documents_in_order_are_polled_in_order(inprocess: InProcess, node: LocalNode) -> None:
    """One at a time: the next document of an order is found when the previous one is settled; others are found
    meanwhile.
    """
    channel = await (await inprocess.client(node)).open_channel()
    await fill(inprocess, node, b"1", b"2", OrderKey="k")
    await fill(inprocess, node, b"free")
    first = await polled(channel)
    assert first is not None
    others = [await polled(channel), await polled(channel)]
    assert sorted(bytes(one.body) for one in (first, *others) if one) == [b"1", b"free"]
    channel.ack(first.delivery_tag)
    for one in others:
        if one is not None:
            channel.ack(one.delivery_tag)
    last = await until(lambda: polled(channel))
    assert bytes(last.body) == b"2"


async def test_a_poll_while_the_store_is_away_is_answered_when_it_is_back(
    inprocess: InProcess, node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = await (await inprocess.client(node)).open_channel()
    await fill(inprocess, node, b"1")
    revive, back = node._database.revive, asyncio.Event()

    async def later() -> None:
        await back.wait()
        await revive()

    monkeypatch.setattr(node._database, "revive", later)
    with psycopg.connect(node.store.url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'semq-writer' AND datname = current_database()"
        )
    await until(lambda: node.store._writer is None)
    asked = asyncio.create_task(polled(channel))
    await until(lambda: node.inboxes.queue("").free() > 0)
    back.set()
    got = await asked
    assert got is not None
    assert bytes(got.body) == b"1"


async def test_polling_beside_a_consumer(inprocess: InProcess, node: LocalNode) -> None:
    """Each document goes to one of them; a getter whose channel has ended takes none."""
    link = await inprocess.client(node)
    consumer, poller = await link.open_channel(), await link.open_channel()
    taken: list[bytes] = []
    await consumer.qos(1)
    tag = await consumer.consume("semq.inbox", lambda batch: taken.extend(bytes(one.body) for one in batch))
    assert tag
    await fill(inprocess, node, b"1", b"2", b"3")
    await until(lambda: taken)
    assert (await counts(poller))[1] == 1
    got = [await polled(poller) for _ in range(3)]
    assert sorted([*taken, *(bytes(one.body) for one in got if one)]) == [b"1", b"2", b"3"]
    assert await counts(poller) == (0, 1)
