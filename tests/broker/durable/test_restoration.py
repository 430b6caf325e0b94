"""Restarts of a broker on the same store."""

from typing import Any

import pytest

from semq.amqp.wire import encode_table
from semq.broker.durable.restoration import restore
from semq.broker.queues.bodies import Bodies
from semq.broker.queues.queue import Disposition, Queue
from semq.store.broker.operations import AddMessage, Bind, DeclareExchange, DeclareQueue, DeleteQueue, OrderlyEnd
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.pure import DelayedCalls, Model, RecordingConsumer, bodies


async def after_restart(first: Model, is_orderly: bool = True, window: int = 1 << 30) -> Model:
    """Return a new broker on the store of ``first``, which stops in an orderly way or crashes."""
    if is_orderly:
        first.journal.add(OrderlyEnd())
    first.flush()
    model = Model(first.store, first.later, window)
    model.clock.now = first.clock.now
    state = await first.store.load()
    model._ids = state.next_queue_id - 1
    restore(state, {"/": model.vhost}, Bodies(model.store, model.journal))
    return model


def queue_of(model: Model, name: str) -> Queue:
    queue = model.vhost.queues[name]
    assert isinstance(queue, Queue)
    return queue


async def test_durable_definitions_and_persistent_messages_survive_and_other_objects_do_not() -> None:
    first = Model()
    vhost = first.vhost
    vhost.declare_exchange("kept", "topic", True, False, True, {"alternate-exchange": "amq.fanout"})
    vhost.declare_exchange("gone", "topic", False, False, False, {})
    kept, gone = first.queue("kept", durable=True, max_length=9), first.queue("gone")
    first.queue("mine", durable=True, owner=OWNER)
    for source, destination in (("kept", kept), ("kept", gone), ("gone", kept), ("amq.topic", kept)):
        vhost.bind(vhost.exchanges[source], destination, "a.#", {"n": 1})
    vhost.bind(vhost.exchanges["amq.direct"], vhost.exchanges["kept"], "k", {})
    vhost.bind(vhost.exchanges["amq.topic"], kept, "b", {})
    vhost.unbind(vhost.exchanges["amq.topic"], kept, "b", {})
    for body, mode in ((b"1", 2), (b"2", 1), (b"3", 2)):
        first.publish("kept", body, delivery_mode=mode, app_id="app")
    model = await after_restart(first)
    assert bodies(queue_of(model, "kept")) == [b"1", b"3"]
    assert set(model.vhost.queues) == {"kept"}
    assert set(model.vhost.exchanges) - set(Model().vhost.exchanges) == {"kept"}
    assert model.vhost.binding_count == 3
    exchange = model.vhost.exchanges["kept"]
    assert (exchange.internal, exchange.alternate, exchange.shown_type) == (True, "amq.fanout", "topic")
    assert model.publish("a.b", exchange="kept") == 1
    model.vhost.declare_exchange("kept", "topic", True, False, True, {"alternate-exchange": "amq.fanout"})
    assert model.queue("kept", durable=True, max_length=9) is queue_of(model, "kept")
    entry = queue_of(model, "kept").get()
    assert entry is not None
    assert entry.message.header.app_id == "app"
    queue_of(model, "kept").settle([entry], Disposition.ACK)
    assert [op.body for op in (await after_restart(model)).store.messages.values()] == [b"3"]


class ConnectionOwner:
    def __init__(self) -> None:
        self.exclusive_queues: dict[Queue, None] = {}


OWNER = ConnectionOwner()


async def test_only_delivered_messages_are_marked_redelivered() -> None:
    first = Model()
    queue, consumer = first.queue("q", durable=True), RecordingConsumer(3)
    queue.subscribe(consumer, False)
    for number in range(5):
        first.publish("q", b"%d" % number, delivery_mode=2)
    consumer.room = -9
    consumer.settle(queue, 1, Disposition.REQUEUE)
    queue.settle([consumer.unacked[1]], Disposition.ACK)
    model = await after_restart(first)
    waiting = [(entry.message.body, entry.deliveries) for entry in queue_of(model, "q").ready]
    assert waiting == [(b"0", 1), (b"1", 1), (b"3", 0), (b"4", 0)]


async def test_after_a_crash_all_messages_are_marked_redelivered() -> None:
    first = Model()
    first.queue("q", durable=True)
    for number in range(3):
        first.publish("q", b"%d" % number, delivery_mode=2)
    model = await after_restart(first, is_orderly=False)  # the last deliveries may not have been recorded
    model.publish("q", b"new", delivery_mode=2)
    waiting = [(entry.message.body, entry.deliveries) for entry in queue_of(model, "q").ready]
    assert waiting == [(b"0", 1), (b"1", 1), (b"2", 1), (b"new", 0)]
    third = await after_restart(model)  # after an orderly end the marks remain
    assert [entry.deliveries for entry in queue_of(third, "q").ready] == [1, 1, 1, 0]


async def test_marks_of_a_crash_remain_if_the_virtual_host_is_not_configured_at_the_next_start() -> None:
    first = Model()
    first.queue("q", durable=True)
    for number in range(2):
        first.publish("q", b"%d" % number, delivery_mode=2)
    first.flush()
    without_host = Model(first.store, first.later)
    restore(await first.store.load(), {}, Bodies(first.store, without_host.journal))
    third = await after_restart(without_host)  # after an orderly end
    third.publish("q", b"new", delivery_mode=2)
    assert [entry.deliveries for entry in queue_of(third, "q").ready] == [1, 1, 0]


async def test_remains_of_a_deleted_queue_are_deleted_at_the_load() -> None:
    first = Model()
    queue = first.queue("q", durable=True)
    first.publish("q", b"1", delivery_mode=2)
    first.flush()
    first.store.delete_queue(DeleteQueue(queue.queue_id))  # a crash before the messages were deleted
    await after_restart(first)
    assert first.store.messages == {}


async def test_positions_and_ids_are_never_used_again() -> None:
    first = Model()
    queue = first.queue("q", durable=True)
    for _ in range(3):
        first.publish("q", b"", delivery_mode=2)
        entry = queue.get()
        assert entry is not None
        queue.settle([entry], Disposition.ACK)
    other = first.queue("other", durable=True)
    first.vhost.remove_queue(other)
    model = await after_restart(first)
    model.publish("q", b"new", delivery_mode=2)
    (entry,) = queue_of(model, "q").ready
    assert entry.position == 4
    assert model.queue("third").queue_id > other.queue_id


async def test_expiry_continues_by_the_wall_clock() -> None:
    first = Model()
    first.queue("q", durable=True)
    first.publish("q", b"1", delivery_mode=2, expiration="10000")
    first.advance_time(4)
    model = await after_restart(first)
    model.advance_time(5)
    assert bodies(queue_of(model, "q")) == [b"1"]
    model.advance_time(1)
    assert bodies(queue_of(model, "q")) == []


async def test_rows_of_an_unknown_virtual_host_and_bindings_of_missing_objects_are_not_restored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryBrokerStore(DelayedCalls())
    elsewhere = DeclareExchange("elsewhere", "e", "topic", False, False, b"\0\0\0\0")
    row = AddMessage(9, 1, "", "q", 0, None, 0, b"", b"")
    store.declare_queue(DeclareQueue(9, "elsewhere", "q", False, b"\0\0\0\0"))
    store.save([elsewhere, Bind("/", "none", "q", False, "", b"\0\0\0\0"), row], lambda _: None)
    store.save([Bind("elsewhere", "e", "q", False, "", b"\0\0\0\0")], lambda _: None)
    model = Model(store)
    restore(await store.load(), {"/": model.vhost}, Bodies(store, model.journal))
    assert model.vhost.queues == {}
    assert model.vhost.binding_count == 0
    assert "1 messages of queues that were not restored" in caplog.text
    assert list(store.messages) == [(9, 1)]


@pytest.mark.parametrize("is_flushed", [False, True])
async def test_deliveries_out_of_order_keep_the_highest_mark(is_flushed: bool) -> None:
    first = Model()
    queue, consumer = first.queue("q", durable=True, max_priority=9), RecordingConsumer(0)
    queue.subscribe(consumer, False)
    for priority in (1, 1, 5):
        first.publish("q", b"%d" % priority, delivery_mode=2, priority=priority)
    for _ in range(2):
        consumer.room = 1
        queue.resume(consumer)
        if is_flushed:
            first.flush()
    model = await after_restart(first)
    waiting = [(entry.message.body, entry.deliveries) for entry in queue_of(model, "q").ready]
    # A queue marks only its highest delivered position, so the last message counts as delivered, too.
    assert waiting == [(b"5", 1), (b"1", 1), (b"1", 1)]


async def test_a_stored_queue_loses_an_argument_that_is_no_longer_permitted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = Model()
    first.flush()
    arguments: dict[str, Any] = {
        "x-dead-letter-exchange": "d",
        "x-dead-letter-routing-key": "k" * 256,
        "x-max-length": 5,
    }
    first.store.declare_queue(DeclareQueue(7, "/", "old", False, encode_table(arguments)))
    queue = queue_of(await after_restart(first), "old")
    assert (queue.settings.dead_letter_routing_key, queue.settings.max_length) == (None, 5)
    assert queue.arguments == arguments
    assert "ignores an argument" in caplog.text
