"""Publishing by the node itself, routing by several keys, and services as destinations."""

import pytest

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AccessRefused, NotFound
from semq.broker.queues.queue import Disposition, Queue
from semq.broker.services import ServiceExchange, ServiceQueue
from semq.store.broker.operations import AddMessage
from tests.broker.pure import Model, RecordingConsumer, bodies, message_of

HEADER = ContentHeader.build(4, Properties(delivery_mode=2))


def test_a_prepared_message_is_seen_only_after_the_commit_and_at_its_own_position() -> None:
    model = Model()
    queue = model.queue("q", durable=True)
    model.flush()
    prepared = model.vhost.prepare_publish("", "q", HEADER, b"mine")
    model.publish("q", b"later", delivery_mode=2)
    assert bodies(queue) == [b"later"]
    model.flush()
    assert [op.body for op in model.store.messages.values()] == [b"later"]
    (op,) = prepared.ops
    assert isinstance(op, AddMessage)
    assert (op.queue_id, op.position, op.body, op.header) == (queue.queue_id, 1, b"mine", HEADER.raw)
    assert prepared.commit() == 1
    assert bodies(queue) == [b"mine", b"later"]
    assert prepared.commit() == 0


def test_a_prepared_message_goes_to_consumers_and_its_acknowledgement_deletes_it() -> None:
    model = Model()
    queue, consumer = model.queue("q", durable=True), RecordingConsumer()
    queue.subscribe(consumer, False)
    prepared = model.vhost.prepare_publish("", "q", HEADER, b"mine")
    model.store.save(prepared.ops, lambda _: None)
    model.flush()
    prepared.commit()
    assert consumer.bodies == [b"mine"]
    queue.settle(consumer.unacked, Disposition.ACK)
    model.flush()
    assert model.store.messages == {}


def test_a_prepared_message_for_a_deleted_queue_is_dropped() -> None:
    model = Model()
    queue = model.queue("q")
    prepared = model.vhost.prepare_publish("", "q", HEADER, b"mine")
    assert prepared.ops == []
    model.vhost.remove_queue(queue)
    prepared.commit()
    assert model.memory.bytes == 0


def test_a_full_queue_refuses_a_prepared_message() -> None:
    model = Model()
    model.queue("q", max_length=0, overflow="reject-publish")
    assert model.vhost.prepare_publish("", "q", HEADER, b"mine").commit() == 0


def test_the_node_publishes_messages_itself() -> None:
    model = Model()
    model.queue("q", durable=True)
    sent = model.vhost.publish_internal("", "q", HEADER, b"mine")
    assert (sent.queues, sent.must_be_stored, sent.is_refused) == (1, True, False)
    with pytest.raises(NotFound, match="no exchange 'none'"):
        model.vhost.publish_internal("none", "q", HEADER, b"mine")


def test_a_message_is_routed_by_all_of_its_keys() -> None:
    model = Model()
    names = ("main", "copy", "blind")
    queues = [model.queue(name) for name in names]
    assert model.publish("main", b"1", headers={"CC": ["copy", "main"], "BCC": ["blind"], "k": 1}) == 3
    for queue in queues:
        (entry,) = queue.ready
        assert entry.message.headers() == {"CC": ["copy", "main"], "k": 1}


def test_the_cost_of_many_routing_keys_is_linear_in_the_number_of_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Model()
    for number in range(30):
        model.vhost.bind(model.vhost.exchanges["amq.fanout"], model.queue(f"q{number}"), "", {})
    comparisons = 0

    def compare(queue: Queue, other: object) -> bool:
        nonlocal comparisons
        comparisons += 1
        return queue is other

    monkeypatch.setattr(Queue, "__eq__", compare)
    copies = [str(number % 20) for number in range(200)]
    assert model.publish("", b"", "amq.fanout", headers={"CC": copies}) == 30
    assert comparisons == 0


def test_services_are_found_by_name_and_messages_are_not_routed_to_them() -> None:
    model = Model()
    exchange, inbox = ServiceExchange("semq", "x-semq"), ServiceQueue("inbox")
    model.vhost.register(exchange)
    model.vhost.register(inbox)
    received: list[tuple[int, int]] = []
    inbox.counts(lambda *counts: received.append(counts))
    assert (exchange.shown_type, received) == ("x-semq", [(0, 0)])
    assert model.vhost.route_message(model.vhost.find_exchange(""), message_of(routing_key="inbox")) == []
    assert list(exchange.match("k", dict)) == []


def test_no_queue_and_no_exchange_is_declared_that_leads_to_the_node() -> None:
    model = Model()
    model.vhost.register(ServiceExchange("semq", "x-semq"))
    model.vhost.register(ServiceQueue("inbox"))
    model.vhost.declare_exchange("events", "topic", True, False, False, {})
    model.vhost.exchanges["events"].belongs_to_node = True
    for name in ("semq", "events"):
        with pytest.raises(
            AccessRefused, match=rf"'{name}' .* belongs to the node: it cannot be a dead-letter exchange"
        ):
            model.queue("q", dead_letter_exchange=name)
        with pytest.raises(
            AccessRefused, match=rf"'{name}' .* belongs to the node: it cannot be an alternate exchange"
        ):
            model.vhost.declare_exchange("e", "fanout", False, False, False, {"alternate-exchange": name})
    with pytest.raises(AccessRefused, match=r"queue 'inbox' .* belongs to the node: it cannot take dead letters"):
        model.queue("q", dead_letter_exchange="", dead_letter_routing_key="inbox")
    assert {"q", "e"} & {*model.vhost.queues, *model.vhost.exchanges} == set()


@pytest.mark.parametrize(("key", "headers"), [("inbox", {}), ("q", {"CC": ["inbox"]}), ("q", {"BCC": ["q", "inbox"]})])
def test_a_client_cannot_put_a_message_into_a_queue_of_the_node(key: str, headers: dict[str, list[str]]) -> None:
    model = Model()
    model.vhost.register(ServiceQueue("inbox"))
    queue, default = model.queue("q"), model.vhost.find_exchange("")
    with pytest.raises(
        AccessRefused, match=r"queue 'inbox' .* belongs to the node: only the node puts messages into it"
    ):
        model.vhost.publish(default, message_of(b"1", "", key, headers=headers))
    assert bodies(queue) == []
    assert model.vhost.publish_internal("", key, message_of(headers=headers).header, b"").queues == len(bodies(queue))
