"""Limits and special cases of a virtual host's exchanges, queues and bindings."""

from itertools import pairwise

import pytest

from semq.amqp.errors import AccessRefused, NotAllowed, PreconditionFailed, ResourceError
from semq.broker.definitions import VhostLimits
from semq.broker.services import ServiceExchange, ServiceQueue
from tests.broker.pure import Model


def test_the_numbers_of_queues_exchanges_and_bindings_are_limited() -> None:
    model = Model()
    vhost = model.vhost
    vhost.limits = VhostLimits(queues_max=2, exchanges_max=8, bindings_max=2)
    queues = [model.queue(name) for name in ("a", "b")]
    with pytest.raises(NotAllowed, match=r"queue limit \(2\)"):
        model.queue("c")
    assert model.queue("a") is queues[0]
    vhost.declare_exchange("x", "direct", False, False, False, {})
    vhost.declare_exchange("y", "direct", False, False, False, {})
    with pytest.raises(NotAllowed, match=r"exchange limit \(8\)"):
        vhost.declare_exchange("z", "direct", False, False, False, {})
    for key in ("1", "2", "2"):
        vhost.bind(vhost.exchanges["x"], queues[0], key, {})
    with pytest.raises(NotAllowed, match=r"binding limit \(2\)"):
        vhost.bind(vhost.exchanges["x"], queues[0], "3", {})
    vhost.remove_queue(queues[0])
    vhost.bind(vhost.exchanges["x"], queues[1], "3", {})
    assert vhost.binding_count == 1


def test_the_bytes_of_definitions_are_limited() -> None:
    model = Model()
    vhost = model.vhost
    vhost.limits = VhostLimits(bytes_max=1000)
    arguments = {"text": "x" * 600}
    queue = vhost.declare_queue("q", False, False, None, arguments, None)[0]
    for act in (
        lambda: vhost.declare_queue("other", False, False, None, arguments, None),
        lambda: vhost.declare_exchange("e", "direct", False, False, False, arguments),
        lambda: vhost.bind(vhost.exchanges["amq.direct"], queue, "k", arguments),
    ):
        with pytest.raises(ResourceError, match="1000 bytes"):
            act()
    vhost.bind(vhost.exchanges["amq.direct"], queue, "k", {})
    vhost.declare_exchange("e", "direct", False, False, False, {})
    vhost.delete_exchange("e", False)
    vhost.remove_queue(queue)  # type: ignore[arg-type]
    assert vhost.bytes_held == 0


@pytest.mark.parametrize("act", ["unbind", "delete queue", "delete exchange"])
def test_an_answer_waits_for_the_deletion_of_a_durable_exchange_that_loses_its_last_binding(act: str) -> None:
    model = Model()
    vhost, queue = model.vhost, model.queue("transient")
    vhost.declare_exchange("durable", "fanout", True, True, False, {})
    vhost.declare_exchange("transient", "fanout", False, False, False, {})
    source = vhost.exchanges["durable"]
    destination = vhost.exchanges["transient"] if act == "delete exchange" else queue
    assert not vhost.bind(source, destination, "", {})
    if act == "unbind":
        must_wait = vhost.unbind(source, destination, "", {})
    elif act == "delete queue":
        _, must_wait = vhost.delete_queue(queue, False, False)
    else:
        must_wait = vhost.delete_exchange("transient", False)
    assert "durable" not in vhost.exchanges
    assert must_wait


def test_bindings_are_equal_whatever_the_order_of_their_arguments() -> None:
    model = Model()
    queue, exchange = model.queue(), model.vhost.exchanges["amq.match"]
    model.vhost.bind(exchange, queue, "", {"a": 1, "b": 2})
    model.vhost.bind(exchange, queue, "", {"b": 2, "a": 1})
    assert model.vhost.binding_count == 1
    assert not model.vhost.unbind(exchange, queue, "", {"a": 1})
    model.vhost.unbind(exchange, queue, "", {"b": 2, "a": 1})
    assert (model.vhost.binding_count, queue.incoming) == (0, {})


def test_deleting_an_exchange_deletes_its_bindings_on_both_sides() -> None:
    model = Model()
    vhost, queue = model.vhost, model.queue(durable=True)
    vhost.declare_exchange("e", "fanout", True, False, False, {})
    vhost.bind(vhost.exchanges["e"], queue, "", {})
    vhost.bind(vhost.exchanges["amq.fanout"], vhost.exchanges["e"], "", {})
    model.flush()
    assert len(model.store.bindings) == 2
    assert vhost.delete_exchange("e", False)
    model.flush()
    assert (vhost.binding_count, queue.incoming, model.store.bindings, model.store.exchanges) == (0, {}, {}, {})


def test_auto_delete_exchanges_are_deleted_with_their_last_binding_also_in_a_chain() -> None:
    model = Model()
    vhost, queue = model.vhost, model.queue()
    for name in ("first", "second"):
        vhost.declare_exchange(name, "fanout", False, True, False, {})
    vhost.bind(vhost.exchanges["first"], vhost.exchanges["second"], "", {})
    vhost.bind(vhost.exchanges["second"], queue, "", {})
    vhost.remove_queue(queue)
    assert {"first", "second"} & set(vhost.exchanges) == set()


def test_clients_cannot_change_definitions_of_services() -> None:
    model = Model()
    vhost = model.vhost
    vhost.register(ServiceExchange("semq", "x-semq"))
    vhost.register(ServiceQueue("inbox"))
    queue = model.queue()
    vhost.declare_exchange("semq", "x-semq", True, False, False, {})
    assert vhost.declare_queue("inbox", True, False, None, {}, None)[0].is_service
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'type'"):
        vhost.declare_exchange("semq", "topic", True, False, False, {})
    with pytest.raises(PreconditionFailed, match="unknown exchange type"):
        vhost.declare_exchange("mine", "x-semq", True, False, False, {})
    for act in (
        lambda: vhost.delete_exchange("semq", False),
        lambda: vhost.delete_queue(vhost.queues["inbox"], False, False),
        lambda: vhost.bind(vhost.exchanges["semq"], queue, "", {}),
        lambda: vhost.bind(vhost.exchanges["amq.topic"], vhost.exchanges["semq"], "", {}),
        lambda: vhost.bind(vhost.exchanges["amq.topic"], vhost.queues["inbox"], "", {}),
        lambda: vhost.unbind(vhost.exchanges["amq.topic"], vhost.queues["inbox"], "", {}),
    ):
        with pytest.raises(AccessRefused, match="belongs to the node"):
            act()


def test_an_exchange_of_the_node_is_not_deleted_and_gets_messages_from_the_node_only() -> None:
    model = Model()
    vhost, queue = model.vhost, model.queue()
    vhost.declare_exchange("events", "topic", True, False, False, {})
    vhost.exchanges["events"].belongs_to_node = True
    with pytest.raises(AccessRefused, match="belongs to the node"):
        vhost.delete_exchange("events", False)
    with pytest.raises(AccessRefused, match="belongs to the node"):
        vhost.bind(vhost.exchanges["amq.topic"], vhost.exchanges["events"], "#", {})
    vhost.bind(vhost.exchanges["events"], queue, "#", {})
    assert model.publish("delivered", b"1", exchange="events") == 1


def test_a_chain_of_auto_delete_exchanges_may_be_longer_than_the_recursion_limit() -> None:
    model = Model()
    vhost = model.vhost
    names = [f"e{number}" for number in range(2000)]
    for name in names:
        vhost.declare_exchange(name, "fanout", True, True, False, {})
    for source, destination in pairwise(names):
        vhost.bind(vhost.exchanges[source], vhost.exchanges[destination], "", {})
    vhost.bind(vhost.exchanges[names[-1]], queue := model.queue(durable=True), "", {})
    vhost.remove_queue(queue)
    assert (vhost.exchanges.keys() & set(names), vhost.binding_count, vhost.bytes_held) == (set(), 0, 0)
    model.flush()
    assert (model.store.exchanges, model.store.bindings) == ({}, {})


def test_removing_a_missing_binding_deletes_no_exchange() -> None:
    model = Model()
    vhost = model.vhost
    vhost.declare_exchange("e", "fanout", False, True, False, {})
    queue = model.queue()
    assert not vhost.unbind(vhost.exchanges["e"], queue, "", {})
    vhost.bind(vhost.exchanges["amq.fanout"], queue, "", {})
    vhost.remove_queue(queue)
    assert "e" in vhost.exchanges
