"""Routing between exchanges: alternates, chains, cycles."""

from tests.broker.pure import Model, bodies


def test_a_chain_of_exchanges_and_a_circle_deliver_once() -> None:
    model = Model()
    vhost, queue = model.vhost, model.queue()
    for name in ("a", "b", "c"):
        vhost.declare_exchange(name, "fanout", False, False, False, {})
    for source, destination in (("a", "b"), ("b", "c"), ("c", "a")):
        vhost.bind(vhost.find_exchange(source), vhost.find_exchange(destination), "", {})
    for name in ("a", "c"):
        vhost.bind(vhost.find_exchange(name), queue, "", {})
    assert model.publish("k", b"1", exchange="b") == 1
    assert bodies(queue) == [b"1"]


def test_the_alternate_takes_what_has_no_other_way() -> None:
    model = Model()
    vhost, normal, rest = model.vhost, model.queue("normal"), model.queue("rest")
    vhost.declare_exchange("second", "fanout", False, False, False, {"alternate-exchange": "first"})
    vhost.declare_exchange("first", "direct", False, False, False, {"alternate-exchange": "second"})
    vhost.bind(vhost.find_exchange("first"), normal, "known", {})
    assert model.publish("lost", exchange="first") == 0
    vhost.bind(vhost.find_exchange("second"), rest, "", {})
    assert model.publish("known", b"1", exchange="first") == 1
    assert model.publish("unknown", b"2", exchange="first") == 1
    assert (bodies(normal), bodies(rest)) == ([b"1"], [b"2"])


def test_an_alternate_that_does_not_exist_is_passed_over() -> None:
    model = Model()
    model.vhost.declare_exchange("e", "direct", False, False, False, {"alternate-exchange": "nowhere"})
    assert model.publish("k", exchange="e") == 0


def test_two_ways_to_one_queue_are_one() -> None:
    model = Model()
    queue, topic = model.queue(), model.vhost.find_exchange("amq.topic")
    for pattern in ("a.*", "a.#", "#.b"):
        model.vhost.bind(topic, queue, pattern, {})
    assert model.publish("a.b", b"1", exchange="amq.topic") == 1
    assert bodies(queue) == [b"1"]


def test_every_queue_is_bound_to_the_default_exchange_by_its_name() -> None:
    model = Model()
    model.queue("here")
    assert (model.publish("here"), model.publish("elsewhere")) == (1, 0)
