"""A consumer as a service sees it."""

from semq.amqp import methods as m
from semq.amqp.events import Delivered
from tests.broker.test_services import RegisteredServices
from tests.transport.pair import pair
from tests.waiting import until


async def test_the_credit_of_a_consumer_is_the_unused_prefetch_of_its_channel() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.call(m.BasicQos(0, 3, True), m.BasicQosOk)
        deliveries: list[Delivered] = []
        await channel.consume("inbox", deliveries.extend)
        (consumer,) = services.inbox.consumers
        assert consumer.credit == 3
        services.inbox.put(b"1")
        assert consumer.credit == 2
        services.inbox.put(b"2", b"3", b"4")
        assert consumer.credit == 0
        await until(lambda: len(deliveries) == 3)
