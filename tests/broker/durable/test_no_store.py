"""The broker's store without a disk, and the store of the tests."""

from collections.abc import Mapping

from semq.broker.durable.no_store import NoStore
from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DropBody,
    DropMessages,
    MarkHandedOut,
    OrderlyEnd,
    SetDeliveryCount,
    StoredState,
    StoreOp,
    Unbind,
)
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.pure import DelayedCalls

EXCHANGE = DeclareExchange("/", "e", "topic", False, False, b"")
BINDING = ("/", "e", "q", False, "k", b"")


def message(position: int, deliveries: int = 0, body_id: int = 0) -> AddMessage:
    return AddMessage(1, position, "", "q", 0, None, deliveries, b"", b"", body_id)


def queue(number: int) -> DeclareQueue:
    return DeclareQueue(number, "/", f"q{number}", False, b"")


async def test_the_memory_store_applies_all_operations() -> None:
    later = DelayedCalls()
    store = MemoryBrokerStore(later)
    ops: list[StoreOp] = [EXCHANGE, queue(1), queue(2), Bind(*BINDING), message(1), message(2), message(3)]
    ops += [SetDeliveryCount(1, 2, 4), SetDeliveryCount(1, 9, 4), MarkHandedOut(1, 2), DropMessages(1, [1, 9])]
    received: list[Mapping[int, BaseException]] = []
    store.save([*ops, OrderlyEnd()], received.append)
    assert received == []
    later.run()
    assert received == [{}]
    expected = StoredState(
        [EXCHANGE], [queue(1), queue(2)], [Bind(*BINDING)], [message(2, 4), message(3)], {}, {1: 2}, 3, 1
    )
    assert await store.load() == expected
    expected.handed_out = {1: 3}  # no broker has ended since the last load
    assert await store.load() == expected
    store.save([OrderlyEnd()], received.append)
    assert await store.load() == expected
    store.save([DeleteExchange("/", "e"), Unbind(*BINDING), Unbind(*BINDING), DeleteQueue(1)], received.append)
    assert await store.load() == StoredState(queues=[queue(2)], next_queue_id=3)


async def test_the_memory_store_fails_on_request() -> None:
    later = DelayedCalls()
    store = MemoryBrokerStore(later)
    store.failure = OSError("disk full")
    received: list[Mapping[int, BaseException]] = []
    store.save([queue(1)], received.append)
    later.run()
    assert received == [{0: store.failure}]
    assert (await store.load()).queues == []


async def test_bodies_that_no_message_refers_to_are_dropped_at_the_load() -> None:
    store = MemoryBrokerStore(DelayedCalls())
    chunks: list[StoreOp] = [AddBodyChunk(number, 0, b"%d" % number) for number in (1, 2, 3)]
    store.save([*chunks, queue(1), message(1, body_id=2), DropBody(3)], lambda _: None)
    assert (await store.load()).next_body_id == 3
    assert store.bodies == {2: {0: b"2"}}


async def test_without_a_store_only_bodies_are_kept() -> None:
    later = DelayedCalls()
    store = NoStore(later)
    received: list[object] = []
    store.save([queue(1), AddBodyChunk(1, 0, b"a"), AddBodyChunk(2, 0, b"b"), DropBody(2)], received.append)
    for body_id in (1, 2):
        store.read_body(body_id, 0, lambda data, error: received.append((data, type(error))))
    later.run()
    assert received == [{}, (b"a", type(None)), (None, KeyError)]
    assert await store.load() == StoredState()
