"""The consumer's interface for services; the rest is tested through clients in test_consumption."""

from semq.amqp import methods as m
from semq.amqp.events import Delivered
from tests.broker.test_services import House
from tests.transport.pair import pair
from tests.waiting import until


async def test_the_credit_of_a_consumer_ends_with_the_prefetch_of_its_channel() -> None:
    house = House()
    async with pair(prepare=house.prepare) as both:
        channel = await (await both.dial()).open_channel()
        await channel.call(m.BasicQos(0, 3, True), m.BasicQosOk)
        got: list[Delivered] = []
        await channel.consume("inbox", got.extend)
        (consumer,) = house.inbox.consumers
        assert consumer.credit == 3
        house.inbox.put(b"1")
        assert consumer.credit == 2
        house.inbox.put(b"2", b"3", b"4")
        assert consumer.credit == 0
        await until(lambda: len(got) == 3)
