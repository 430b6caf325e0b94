"""While a large body is being sent, other contents for the same channel wait."""

import asyncio

import pytest

from semq.amqp.errors import PreconditionFailed
from semq.amqp.events import Delivered
from semq.broker.queues.bodies import LargeBody
from semq.broker.services import Refused, ReturnedToSender, ServiceDelivery
from semq.store.broker.operations import ReadDone
from semq.transport.errors import LinkLost
from tests.broker.test_services import RegisteredServices, confirming_channel
from tests.transport.pair import header, pair
from tests.transport.publishing import publish_and_wait
from tests.waiting import until


class PendingBody(LargeBody):
    """A large body of one chunk that is read when the test allows it."""

    def __init__(self, data: bytes) -> None:
        super().__init__(len(data))
        self.data = data
        self.holders = 0
        self.done: ReadDone | None = None

    def retain(self) -> None:
        self.holders += 1

    def release(self) -> None:
        self.holders -= 1

    @property
    def chunk_count(self) -> int:
        return 1

    def read(self, index: int, done: ReadDone) -> None:
        self.done = done

    async def finish(self) -> None:
        await until(lambda: self.done)
        assert self.done is not None
        self.done(self.data, None)


async def test_a_return_during_a_large_delivery_does_not_stop_the_channel() -> None:
    services, body = RegisteredServices(), PendingBody(b"large")
    async with pair(prepare=services.prepare) as endpoints, asyncio.timeout(30):
        channel = await confirming_channel(endpoints)
        deliveries: list[Delivered] = []
        await channel.consume("inbox", deliveries.extend)
        confirm = asyncio.ensure_future(
            publish_and_wait(channel, "door", "held", header(b"small"), b"small", mandatory=True)
        )
        await until(lambda: services.exchange.waiting)
        (consumer,) = services.inbox.consumers
        consumer.deliver("door", "key", header(b"large"), body, False, b"large")
        services.exchange.waiting.pop()(ReturnedToSender())
        await body.finish()
        assert await confirm
        await channel.qos(1)
        assert [delivered.body for delivered in deliveries] == [b"large"]
        assert body.holders == 0


async def test_a_large_answer_to_get_waits_for_a_large_delivery_on_its_channel() -> None:
    services = RegisteredServices()
    first, second, third = (PendingBody(data) for data in (b"first", b"second", b"third"))
    async with pair(prepare=services.prepare) as endpoints, asyncio.timeout(30):
        channel = await confirming_channel(endpoints)
        deliveries: list[Delivered] = []
        await channel.consume("inbox", deliveries.extend)
        (consumer,) = services.inbox.consumers
        services.inbox.is_slow = True
        asking = asyncio.ensure_future(channel.get("inbox"))
        await until(lambda: services.inbox.getters)
        consumer.deliver("door", "key", header(b"first"), first, False, b"first")
        services.inbox.getters.pop().answer(
            ServiceDelivery("door", "key", header(b"second"), second, False, b"second"), 0
        )
        await first.finish()
        await second.finish()
        answer = await asking
        assert answer is not None
        assert (answer.body, [delivered.body for delivered in deliveries]) == (b"second", [b"first"])
        asking = asyncio.ensure_future(channel.get("inbox"))
        await until(lambda: services.inbox.getters)
        consumer.deliver("door", "key", header(b"first"), first, False, b"first")
        services.inbox.getters.pop().answer(ServiceDelivery("door", "key", header(b"third"), third, False, b"third"), 0)
        channel.close()
        await until(lambda: not first.holders + second.holders + third.holders)
        with pytest.raises(LinkLost):
            await asking


async def test_a_channel_that_fails_during_a_large_delivery_ends_when_its_client_closes_it() -> None:
    services, body = RegisteredServices(), PendingBody(b"large")
    async with pair(prepare=services.prepare) as endpoints, asyncio.timeout(30):
        channel = await confirming_channel(endpoints)
        await channel.consume("inbox", lambda _: None)
        channel.publish("door", "held", header(b"small"), b"small")
        await until(lambda: services.exchange.waiting)
        (consumer,) = services.inbox.consumers
        consumer.deliver("door", "key", header(b"large"), body, False, b"large")
        services.exchange.waiting.pop()(Refused(PreconditionFailed("no")))
        channel.close()
        await until(lambda: endpoints.server.figures().channels == 0, patience_s=10)
        assert body.holders == 0
