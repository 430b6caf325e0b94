"""Iterations over documents and events, also after the node was killed."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.app import AlreadyGone, Client, DocumentEvent, NodeUnreachable, RefusedByNode
from semq.transport.client_channel import ClientChannel
from tests.app.full_disk import LARGE, full_disk, spooling
from tests.app.network import Network
from tests.transport.publishing import publish_and_wait
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def repaired_network(network: Network) -> Iterator[Network]:
    """Yield the network; afterwards start the receiver's node again if the test has ended it."""
    yield network
    if network.receiver.process is None:
        network.receiver.start()


async def test_an_iteration_continues_after_its_node_was_killed(
    repaired_network: Network, sender: Client, receiver: Client
) -> None:
    node = repaired_network.receiver
    async with receiver.receive(prefetch=1) as documents:
        first = await sender.send("56001", b"before the kill")
        while (document := await anext(documents)).lk0 != first.lk0:
            await document.ack()
        await asyncio.to_thread(node.end, signal.SIGKILL)
        second = await sender.send("56001", b"while it is down")
        await asyncio.to_thread(node.start)
        seen = {}
        while second.lk0 not in seen:
            again = await anext(documents)
            seen[again.lk0] = again.redelivered
            await again.ack()
        assert seen == {first.lk0: True, second.lk0: False}
        with pytest.raises(AlreadyGone):
            await document.ack()
        assert documents.times_opened == 2


async def test_an_iteration_ends_when_no_document_arrives(receiver: Client) -> None:
    async with receiver.receive("nobody-writes-to-him", idle_s=0.2) as documents:
        assert [document async for document in documents] == []


async def test_a_closed_iteration_ends(receiver: Client) -> None:
    documents = receiver.receive("nobody-writes-to-him")
    await documents.open()
    waiting = asyncio.create_task(anext(documents, None))
    await asyncio.sleep(0)
    await documents.aclose()
    assert await waiting is None


async def test_an_iteration_that_is_closed_while_it_connects_ends(receiver: Client) -> None:
    documents = receiver.receive("nobody-writes-to-him")
    waiting = asyncio.create_task(anext(documents, None))
    await asyncio.sleep(0)
    await documents.aclose()
    assert await asyncio.wait_for(waiting, 10) is None


async def test_a_channel_whose_consumer_starts_too_late_is_closed(
    receiver: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the channel stayed open, its consumer would reserve documents that nobody reads."""
    channels: list[ClientChannel] = []

    async def consume(channel: ClientChannel, *_: Any, **__: Any) -> None:
        channels.append(channel)
        await asyncio.sleep(60)

    await receiver.connect()
    monkeypatch.setattr(ClientChannel, "consume", consume)
    documents = receiver.receive("nobody-writes-to-him")
    documents._patience_s = 1.0
    with pytest.raises(NodeUnreachable):
        await documents.open()
    assert [channel.is_open for channel in channels] == [False]


async def test_a_queue_with_a_reserved_name_is_refused(receiver: Client) -> None:
    with pytest.raises(RefusedByNode) as caught:
        await receiver.events(queue="amq.reserved").open()
    assert caught.value.code == "SEMQ-4403"


@pytest.mark.parametrize("poison", [b"not json", b"[1]", b'{"attempt": "x"}', b'{"app_key": "no slashes"}'])
async def test_an_event_that_cannot_be_read_is_left_out(sender: Client, poison: bytes) -> None:
    """Everyone who may write to the default exchange can put a message into the queue."""
    events = await sender.events(queue="poisoned", expires_s=60, behind=1).open()
    link = await sender._link.connection(sender._link.deadline(PATIENCE_S))
    channel = await link.open_channel()
    await channel.confirm_select()
    await publish_and_wait(channel, "", "poisoned", ContentHeader.build(len(poison), Properties()), poison)
    sent = await sender.send("56001", b"after it")
    event = await anext(events)
    while event.lk0 != sent.lk0 or not event.is_final:
        event = await anext(events)
    events.acknowledge()
    await events.aclose()
    await until_empty(sender, "poisoned")


async def test_an_event_for_which_there_is_no_memory_arrives_again(sender: Client) -> None:
    events = await sender.events(queue="scarce", expires_s=60, behind=1).open()
    read, arrived = events._read, list[DocumentEvent]()

    def fail(channel: ClientChannel, delivered: Delivered) -> DocumentEvent:
        arrived.append(read(channel, delivered))
        raise MemoryError

    await sender.send("56001", b"x")
    events._read = fail
    with pytest.raises(MemoryError):
        await anext(events)
    await events.aclose()
    async with sender.events(queue="scarce", expires_s=60) as again:
        assert await anext(again) == arrived[0]


async def until_empty(client: Client, queue: str) -> None:
    async def is_empty() -> bool:
        (row,) = (await client.request("broker.queues", {"name": queue}))["rows"]
        return (row["ready"], row["unacked"]) == (0, 0)

    await until(is_empty)


async def test_held_documents_do_not_count_for_the_prefetch(
    network: Network, sender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Callable[[], None]] = []
    monkeypatch.setattr("semq.app.subscription.hold", lambda delivered, give_back: held.append(give_back))
    for body in (LARGE, LARGE, b"1", b"2", b"3"):
        sent = await sender.send("56001/prefetch", body)
        await sender.wait_for_delivery(sent.lk0)
    async with spooling(network.receiver.url, monkeypatch) as client:
        documents = client.receive("prefetch", prefetch=2, idle_s=PATIENCE_S)
        with full_disk():
            taken = [await anext(documents), await anext(documents)]
        assert [document.payload for document in taken] == [b"1", b"2"]
        for give_back in held:
            give_back()
        for document in taken:
            await document.ack()
        rest = []
        for _ in range(3):
            rest.append(await anext(documents))
            await rest[-1].ack()
        seen = sorted((document.payload, document.deliveries) for document in rest)
        assert seen == [(LARGE, 2), (LARGE, 2), (b"3", 1)]


async def test_a_reader_makes_room_beside_documents_that_it_has_set_aside(network: Network, sender: Client) -> None:
    for body in (b"1", b"2", b"3", b"4"):
        sent = await sender.send("56001/room", body)
        await sender.wait_for_delivery(sent.lk0)
    async with Client(network.receiver.url) as client, client.receive("room", prefetch=1) as documents:
        first = await anext(documents)
        documents.make_room(1)
        second = await anext(documents)  # it would never arrive
        await second.ack()
        third = await anext(documents)
        documents.make_room(0)
        await first.ack()
        await third.ack()
        fourth = await anext(documents)
        await fourth.ack()
        assert [each.payload for each in (first, second, third, fourth)] == [b"1", b"2", b"3", b"4"]


async def test_an_iteration_leaves_out_a_document_until_it_fits_on_the_disk(
    network: Network, sender: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[Any] = []
    monkeypatch.setattr("semq.app.subscription.hold", lambda delivered, give_back: held.append(give_back))
    large = await sender.send("56001/full-disk", LARGE)
    await sender.wait_for_delivery(large.lk0)
    small = await sender.send("56001/full-disk", b"small")
    async with spooling(network.receiver.url, monkeypatch) as client:
        documents = client.receive("full-disk")
        with full_disk():
            document = await anext(documents)
        assert document.lk0 == small.lk0
        await document.ack()
        (give_back,) = held
        give_back()
        document = await anext(documents)
        assert (document.lk0, document.payload, document.deliveries) == (large.lk0, LARGE, 2)
        await document.ack()
        assert documents.times_opened == 1
