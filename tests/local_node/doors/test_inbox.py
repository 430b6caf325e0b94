"""Inboxes for polling clients: basic.get, correct counts, and unacknowledged documents that are delivered again."""

import asyncio
from collections.abc import Sequence
from functools import partial

import psycopg
import pytest

from local_node.node import LocalNode
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered, Got
from semq.amqp.limits import ConnectionLimits
from semq.engine.ports import Delivery
from semq.store.rows import Event
from semq.transport.client_channel import ClientChannel
from semq.umx_t.headers import USER_HEADERS_MAX
from semq.umx_t.status import AppStatus
from tests.local_node.test_node import confirming, publish
from tests.service.inprocess import InProcess, ask, lose_store
from tests.transport.publishing import publish_and_wait
from tests.waiting import until


@pytest.fixture
async def node(inprocess: InProcess) -> LocalNode:
    _, node = await inprocess.linked_pair()
    return node


async def fill(inprocess: InProcess, node: LocalNode, *bodies: bytes, to: str = "10008", **headers: str) -> None:
    """Send documents of this node to itself, and wait until they are recorded."""
    channel = await confirming(await inprocess.client(node))
    before = row_count(node)
    for body in bodies:
        assert await publish(channel, to, body, **headers)
    await until(lambda: row_count(node) == before + len(bodies))


def row_count(node: LocalNode) -> int:
    with psycopg.connect(node.store.url) as connection:
        row = connection.execute("SELECT count(*) FROM tb_0030").fetchone()
        assert row is not None
        return int(row[0])


def app_statuses(node: LocalNode) -> list[int]:
    with psycopg.connect(node.store.url) as connection:
        return [row[0] for row in connection.execute("SELECT app_status FROM tb_0030 ORDER BY app_status")]


async def poll(channel: ClientChannel, queue: str = "semq.inbox", no_ack: bool = False) -> Got | None:
    async with asyncio.timeout(60):
        return await channel.get(queue, no_ack)


async def message_and_consumer_count(channel: ClientChannel, queue: str = "semq.inbox") -> tuple[int, int]:
    async with asyncio.timeout(60):
        declared = await channel.declare_queue(queue, passive=True)
    return declared.message_count, declared.consumer_count


async def test_a_polling_client_gets_every_document_and_then_nothing(inprocess: InProcess, node: LocalNode) -> None:
    channel = await (await inprocess.client(node)).open_channel()
    assert await poll(channel) is None
    assert await message_and_consumer_count(channel) == (0, 0)
    await fill(inprocess, node, b"1", b"2", b"3")
    await fill(inprocess, node, b"other", to="10008/buyer")
    assert await message_and_consumer_count(channel) == (3, 0)
    assert await message_and_consumer_count(channel, "semq.inbox.buyer") == (1, 0)
    remaining = []
    for body in (b"1", b"2", b"3"):
        message = await poll(channel)
        assert message is not None
        assert (bytes(message.body), message.redelivered) == (body, False)
        remaining.append(message.message_count)
        channel.ack(message.delivery_tag)
    assert remaining == [2, 1, 0]
    assert await poll(channel) is None
    message = await poll(channel, "semq.inbox.buyer", no_ack=True)
    assert message is not None
    assert bytes(message.body) == b"other"
    await until(lambda: row_count(node) == 0)
    assert await message_and_consumer_count(channel) == (0, 0)


async def test_a_polled_document_is_settled_like_a_consumed_one(inprocess: InProcess, node: LocalNode) -> None:
    link = await inprocess.client(node)
    channel = await link.open_channel()
    await fill(inprocess, node, b"1", b"2")
    first, second = await poll(channel), await poll(channel)
    assert first is not None
    assert second is not None
    assert await message_and_consumer_count(channel) == (0, 0)
    channel.nack(first.delivery_tag, requeue=True)
    again = await poll(channel)
    assert again is not None
    assert (bytes(again.body), again.redelivered) == (b"1", True)
    channel.close()  # returns both documents

    channel = await link.open_channel()
    await until(lambda: not node.engine.handover.out)
    assert await message_and_consumer_count(channel) == (2, 0)
    answers = [await poll(channel) for _ in range(3)]
    assert [(bytes(message.body), message.redelivered) if message else None for message in answers] == [
        (b"1", True),
        (b"2", True),
        None,
    ]
    assert answers[0] is not None
    channel.reject(answers[0].delivery_tag, requeue=False)
    await until(lambda: app_statuses(node) == [AppStatus.NEW, AppStatus.PARKED])


async def test_documents_with_one_order_key_are_polled_in_order(inprocess: InProcess, node: LocalNode) -> None:
    """Before the first document with the key is settled, only documents without a key are found."""
    channel = await (await inprocess.client(node)).open_channel()
    await fill(inprocess, node, b"1", b"2", OrderKey="k")
    await fill(inprocess, node, b"free")
    first = await poll(channel)
    assert first is not None
    further = [await poll(channel), await poll(channel)]
    assert sorted(bytes(message.body) for message in (first, *further) if message) == [b"1", b"free"]
    channel.ack(first.delivery_tag)
    for message in further:
        if message is not None:
            channel.ack(message.delivery_tag)
    last = await until(lambda: poll(channel))
    assert bytes(last.body) == b"2"


async def test_a_poll_while_the_store_is_away_is_answered_when_it_is_back(
    inprocess: InProcess, node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = await (await inprocess.client(node)).open_channel()
    await fill(inprocess, node, b"1")
    back = await lose_store(node, monkeypatch)
    polling = asyncio.create_task(poll(channel))
    await until(lambda: node.parts.inboxes.queue("").free() > 0)
    back.set()
    message = await polling
    assert message is not None
    assert bytes(message.body) == b"1"


async def send_with_headers(inprocess: InProcess, node: LocalNode, *sizes: int) -> None:
    """Send documents of this node to itself, one for each size of a header in bytes; the body is its number."""
    channel = await confirming(await inprocess.client(node))
    for number, size in enumerate(sizes):
        header = ContentHeader.build(1, Properties(headers={"n": "x" * size}))
        assert await publish_and_wait(channel, "semq", "10008", header, b"%d" % number)


def keep_bodies(bodies: list[bytes], batch: Sequence[Delivered]) -> None:
    bodies.extend(bytes(delivered.body) for delivered in batch)


def parked_with(node: LocalNode) -> list[str]:
    with psycopg.connect(node.store.url) as connection:
        found = connection.execute("SELECT detail FROM semq_ledger WHERE event = %s", [Event.PARKED.value]).fetchall()
        return [detail.split()[0] for (detail,) in found]


async def test_the_largest_headers_that_a_door_accepts_fit_into_the_default_frame(
    inprocess: InProcess, node: LocalNode
) -> None:
    await send_with_headers(inprocess, node, USER_HEADERS_MAX - 100)
    await until(lambda: row_count(node) == 1)
    channel = await (await inprocess.client(node)).open_channel()
    message = await poll(channel)
    assert message is not None
    assert len((message.header.headers or {})["n"]) == USER_HEADERS_MAX - 100


@pytest.mark.parametrize("is_polling", [False, True])
async def test_a_header_above_the_frame_max_of_a_client_parks_its_document_and_no_other(
    inprocess: InProcess, node: LocalNode, is_polling: bool
) -> None:
    await send_with_headers(inprocess, node, 10, 5000, 10)
    await until(lambda: row_count(node) == 3)
    link = await inprocess.client(node, limits=ConnectionLimits(frame_max=4096))
    channel = await link.open_channel()
    received: list[bytes] = []
    if is_polling:
        for _ in range(2):
            message = await poll(channel, no_ack=True)
            assert message is not None
            received.append(bytes(message.body))
        assert await poll(channel) is None
    else:
        await channel.consume("semq.inbox", partial(keep_bodies, received), no_ack=True)
        await until(lambda: len(received) == 2)
    assert received == [b"0", b"2"]
    await until(lambda: app_statuses(node) == [AppStatus.PARKED])
    assert parked_with(node) == ["SEMQ-1238"]
    await link.close()
    link = await inprocess.client(node)
    (failed,) = (await ask(link, "failed.list"))["result"]["rows"]
    assert (await ask(link, "failed.requeue", {"ids": [failed["id"]]}))["ok"]
    message = await until(partial(poll, await link.open_channel()))
    assert bytes(message.body) == b"1"


async def test_a_client_with_larger_frames_gets_what_does_not_fit_into_those_of_another(
    inprocess: InProcess, node: LocalNode
) -> None:
    received: list[list[bytes]] = [[], []]
    for frame_max, bodies in zip((4096, 131_072), received, strict=True):
        link = await inprocess.client(node, limits=ConnectionLimits(frame_max=frame_max))
        keep = partial(keep_bodies, bodies)
        await (await link.open_channel()).consume("semq.inbox", keep, no_ack=True)
    await send_with_headers(inprocess, node, 5000, 5000, 5000)
    await until(lambda: len(received[1]) == 3)
    assert not received[0]


async def test_documents_that_no_client_could_take_are_not_counted_as_delivered(
    inprocess: InProcess, node: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client does not read, so that all documents but the first wait in memory; then its connection is lost."""
    await fill(inprocess, node, b"1", b"2", b"3")
    link = await inprocess.client(node)
    *_, session = node.server.sessions
    queue, give = node.parts.inboxes.queue(""), node.parts.inboxes.give

    def give_to_a_slow_client(user: str, delivery: Delivery) -> None:
        give(user, delivery)
        session.is_writable = False

    monkeypatch.setattr(session, "writable", lambda is_writable: None)
    monkeypatch.setattr(node.parts.inboxes, "give", give_to_a_slow_client)
    await (await link.open_channel()).consume("semq.inbox", lambda batch: None)
    await until(lambda: len(node.engine.handover.out) == 3)
    assert len(queue._undelivered) == 2
    assert queue.free() == 0
    link.link.abort()
    await until(lambda: not node.engine.handover.out)
    monkeypatch.undo()
    channel = await (await inprocess.client(node)).open_channel()
    answers = [await poll(channel) for _ in range(3)]
    assert [(bytes(message.body), message.redelivered) for message in answers if message] == [
        (b"1", True),
        (b"2", False),
        (b"3", False),
    ]


async def test_each_document_goes_either_to_a_consumer_or_to_a_polling_client(
    inprocess: InProcess, node: LocalNode
) -> None:
    link = await inprocess.client(node)
    consumer, poller = await link.open_channel(), await link.open_channel()
    consumed: list[bytes] = []
    await consumer.qos(1)
    await consumer.consume("semq.inbox", lambda batch: consumed.extend(bytes(delivered.body) for delivered in batch))
    await fill(inprocess, node, b"1", b"2", b"3")
    await until(lambda: consumed)
    assert (await message_and_consumer_count(poller))[1] == 1
    answers = [await poll(poller) for _ in range(3)]
    assert sorted([*consumed, *(bytes(message.body) for message in answers if message)]) == [b"1", b"2", b"3"]
    assert await message_and_consumer_count(poller) == (0, 1)
