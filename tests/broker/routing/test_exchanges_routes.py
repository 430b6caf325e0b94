"""Routing: chains, cycles and alternates of exchanges, several bindings of a queue, the default exchange."""

from tests.broker.pure import Model, bodies


def test_a_chain_and_a_cycle_of_exchanges_deliver_once() -> None:
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


def test_the_alternate_exchange_gets_messages_without_another_route() -> None:
    model = Model()
    vhost, normal, alternate = model.vhost, model.queue("normal"), model.queue("rest")
    vhost.declare_exchange("second", "fanout", False, False, False, {"alternate-exchange": "first"})
    vhost.declare_exchange("first", "direct", False, False, False, {"alternate-exchange": "second"})
    vhost.bind(vhost.find_exchange("first"), normal, "known", {})
    assert model.publish("lost", exchange="first") == 0
    vhost.bind(vhost.find_exchange("second"), alternate, "", {})
    assert model.publish("known", b"1", exchange="first") == 1
    assert model.publish("unknown", b"2", exchange="first") == 1
    assert (bodies(normal), bodies(alternate)) == ([b"1"], [b"2"])


def test_no_exchange_and_no_dead_letter_leads_to_an_exchange_of_the_node() -> None:
    model = Model()
    vhost, queue = model.vhost, model.queue()
    vhost.declare_exchange("events", "fanout", True, False, False, {})
    vhost.declare_exchange("e", "direct", False, False, False, {"alternate-exchange": "events"})
    vhost.bind(vhost.find_exchange("amq.fanout"), vhost.find_exchange("events"), "", {})  # before an update of the node
    dying = model.queue("dying", dead_letter_exchange="events", max_length=0)
    vhost.find_exchange("events").belongs_to_node = True
    vhost.bind(vhost.find_exchange("events"), queue, "", {})
    assert [model.publish("k", exchange=name) for name in ("e", "amq.fanout", "events")] == [0, 0, 1]
    assert model.publish("dying") == 1
    assert (len(dying.ready), len(bodies(queue))) == (0, 1)


def test_a_missing_alternate_exchange_is_ignored() -> None:
    model = Model()
    model.vhost.declare_exchange("e", "direct", False, False, False, {"alternate-exchange": "nowhere"})
    assert model.publish("k", exchange="e") == 0


def test_a_queue_reached_by_several_bindings_gets_the_message_once() -> None:
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
