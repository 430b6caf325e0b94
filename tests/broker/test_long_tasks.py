"""Long tasks in slices: their order and turns, and other clients served in between."""

from collections.abc import Iterator

import pytest

from semq.amqp import methods as m
from semq.amqp.events import Acked, Delivered
from semq.broker.long_tasks import SLICE, LongTasks
from semq.store.broker.operations import DropMessages, SaveDone, SetDeliveryCount, StoreOp
from tests.broker.memory_store import MemoryBrokerStore
from tests.broker.raw import RawClient
from tests.broker.served import run_broker

COUNT = 5 * SLICE


def test_the_first_slice_is_done_at_once_and_later_slices_take_turns() -> None:
    notified: list[int] = []
    done: list[str] = []
    long_tasks = LongTasks(lambda: notified.append(len(long_tasks)))

    def work(name: str, slices: int) -> Iterator[None]:
        for at in range(slices):
            done.append(f"{name}{at}")
            yield

    long_tasks.do(work("a", 3))
    long_tasks.do(work("b", 2))
    assert done == ["a0", "b0"]
    assert notified == [1]  # a notified server runs slices until no task waits
    while len(long_tasks):
        long_tasks.run()
    assert done == ["a0", "b0", "a1", "b1", "a2"]
    long_tasks.run()


def test_without_a_server_all_slices_are_done_at_once() -> None:
    long_tasks = LongTasks()
    done: list[int] = []
    long_tasks.do(map(done.append, range(9)))
    assert done == list(range(9))


class MeasuringStore(MemoryBrokerStore):
    """A store that records the largest number of messages in one list of operations."""

    def __init__(self) -> None:
        super().__init__()
        self.messages_max = 0

    def save(self, ops: list[StoreOp], done: SaveDone) -> None:
        drops = sum(len(op.positions) for op in ops if isinstance(op, DropMessages))
        self.messages_max = max(self.messages_max, drops + sum(isinstance(op, SetDeliveryCount) for op in ops))
        super().save(ops, done)


@pytest.mark.parametrize("act", ["hang up", "nack", "purge", "delete"])
def test_neighbours_are_served_between_slices(act: str) -> None:
    store = MeasuringStore()
    with run_broker(store) as broker, broker.raw().log_in() as neighbour, broker.raw().log_in() as client:
        neighbour.request(m.QueueDeclare("other", durable=True), m.QueueDeclareOk)
        neighbour.request(m.ConfirmSelect(), m.ConfirmSelectOk)
        client.request(m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
        client.request(m.ConfirmSelect(), m.ConfirmSelectOk)
        for _ in range(COUNT):
            client.publish("", "q", b"x", delivery_mode=2)
        client.until(Acked, lambda event: event.delivery_tag == COUNT)
        if act in ("hang up", "nack"):
            for _ in range(2):  # the second return of a message is written to the store
                consume_and_return(client, "nack")
            consume_and_return(client, act)
        else:
            client.send(m.QueuePurge("q") if act == "purge" else m.QueueDelete("q"))
        neighbour.publish("", "other", b"x", delivery_mode=2)
        neighbour.until(Acked)
        expected = COUNT if act in ("hang up", "nack") else 0
        with broker.raw().log_in() as observer:
            messages = -1
            while messages != expected:
                messages = observer.request(m.QueueDeclare("q", durable=True), m.QueueDeclareOk).message_count
    assert store.messages_max <= 2 * SLICE
    assert len(store.messages) == expected + 1


def consume_and_return(client: RawClient, act: str) -> None:
    """Consume all messages; return them by a nack or by the end of the connection."""
    client.request(m.BasicConsume("q", "t"), m.BasicConsumeOk)
    tags: list[int] = []
    while len(tags) < COUNT:
        client.read()
        tags += [event.delivery_tag for event in client.events if isinstance(event, Delivered)]
        client.events.clear()
    client.request(m.BasicCancel("t"), m.BasicCancelOk)
    if act == "nack":
        client.machine.nack(1, tags[-1], True, True)
        client.flush()
        client.request(m.BasicQos(), m.BasicQosOk)  # answered when all messages are returned
    else:
        client.socket.close()
