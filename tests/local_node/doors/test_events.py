"""Events about the documents that an institution sends, as AMQP messages."""

import pytest

from local_node.doors.events import EventExchange, declare_events, event_message
from semq.amqp import methods as m
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AccessRefused
from semq.amqp.wire import short_string
from semq.engine.ports import AppEvent
from semq.umx_t.app_key import NO_KEY, AppKey
from semq.umx_t.locator import LK0
from tests.broker.pure import Model
from tests.service.inprocess import InProcess
from tests.transport.publishing import publish_and_wait


def test_each_refusal_has_a_message_id_of_its_own() -> None:
    """Consumers drop message ids that they have seen; a refused document has no LK0, and possibly no token."""
    refused = [AppEvent("refused", None, None, NO_KEY, 1, token=token) for token in ("", "", "T1", "T1")]
    assert len({event_message(event)[0].message_id for event in refused}) == 4


def test_a_repeated_event_keeps_its_message_id() -> None:
    event = AppEvent("delivered", LK0(1, "a", 1, 1, 7, 1), None, NO_KEY, 1, 2)
    assert {event_message(event)[0].message_id for _ in range(2)} == {f"{event.lk0}/delivered/2"}


def test_a_long_type_is_cut_in_the_routing_key_so_that_the_event_can_be_delivered() -> None:
    model = Model()
    declare_events(model.vhost)
    queue = model.queue()
    model.vhost.bind(model.vhost.exchanges["semq.events"], queue, "refused.#", {})
    event = AppEvent("refused", None, None, AppKey("a", 128 * "订", "", "k"), 1)
    prepared = EventExchange(model.vhost).prepare(event)
    assert prepared is not None
    assert prepared.commit() == 1
    [entry] = queue.ready
    assert entry.message.routing_key == f"refused.none.{80 * '订'}"
    assert short_string(entry.message.routing_key)


async def test_applications_cannot_forge_events_or_delete_their_exchange(inprocess: InProcess) -> None:
    link = await inprocess.client(await inprocess.local("10008", 1))
    forging = await link.open_channel()
    await forging.confirm_select()
    with pytest.raises(AccessRefused, match="only the node publishes"):
        await publish_and_wait(forging, "semq.events", "delivered.x.y", ContentHeader.build(1, Properties()), b"x")
    for act in (m.ExchangeDelete("semq.events"), m.ExchangeBind("semq.events", "amq.topic", "#")):
        with pytest.raises(AccessRefused, match="belongs to the node"):
            await (await link.open_channel()).call(act, m.ExchangeDeleteOk)
    listener = await link.open_channel()
    await listener.declare_exchange("semq.events", "topic", durable=True)
    queue = (await listener.declare_queue(exclusive=True)).queue
    await listener.bind_queue(queue, "semq.events", "#")
