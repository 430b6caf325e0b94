"""The end of a consumer, a transaction or a channel: returned deliveries, kept state and counters."""

import asyncio
from collections.abc import Callable

from semq.amqp import methods as m
from semq.amqp.errors import AmqpError, NotFound
from semq.amqp.events import Delivered
from semq.broker.queues.queue import Disposition
from tests.broker.test_services import House
from tests.transport.pair import header, pair
from tests.waiting import until


async def test_a_consumer_that_a_service_ends_takes_no_transaction_with_it() -> None:
    house = House()
    async with pair(prepare=house.prepare) as both:
        link = await both.dial()
        channel = await link.open_channel()
        await channel.call(m.TxSelect(), m.TxSelectOk)
        got: list[Delivered] = []
        ended: list[str] = []
        channel.on_cancelled = ended.append
        tag = await channel.consume("inbox", got.extend)
        house.inbox.put(b"1", b"2")
        await until(lambda: len(got) == 2)
        channel.ack(got[0].delivery_tag)
        channel.publish("door", "now", header(b"kept"), b"kept")
        await channel.qos(0)
        (consumer,) = house.inbox.consumers
        consumer.cancel()
        await until(lambda: bool(ended))
        assert house.inbox.settlements == [(tag, [b"2"], Disposition.LOST)]
        await channel.call(m.TxCommit(), m.TxCommitOk)
        assert [body for _, _, body in house.door.published] == [b"kept"]
        assert house.inbox.settlements[1:] == [(tag, [b"1"], Disposition.ACK)]


async def test_unacknowledged_messages_return_in_order_also_after_a_transaction() -> None:
    house = House()
    async with pair(prepare=house.prepare) as both:
        channel = await (await both.dial()).open_channel()
        await channel.call(m.TxSelect(), m.TxSelectOk)
        got: list[Delivered] = []
        tag = await channel.consume("inbox", got.extend)
        house.inbox.put(b"1", b"2", b"3")
        await until(lambda: len(got) == 3)
        channel.ack(got[0].delivery_tag)
        channel.close()
        await until(lambda: bool(house.inbox.settlements))
        assert house.inbox.settlements == [(tag, [b"1", b"2", b"3"], Disposition.LOST)]


async def test_a_channel_that_fails_while_it_waits_returns_its_memory() -> None:
    house = House()
    async with pair(prepare=house.prepare) as both:
        channel = await (await both.dial()).open_channel()
        asked: list[Callable[[int, int], None]] = []
        failing: list[AmqpError] = []

        def counts(answer: Callable[[int, int], None]) -> None:
            asked.append(answer)
            if failing:
                raise failing[0]

        house.inbox.counts = counts  # type: ignore[method-assign]
        calls = [
            asyncio.ensure_future(channel.call(m.QueueDeclare("inbox", passive=True), m.QueueDeclareOk))
            for _ in range(4)
        ]
        await until(lambda: bool(asked))
        (session,) = both.server.sessions
        (held,) = session.channels.values()
        await until(lambda: len(held.held or ()) == 3)
        failing.append(NotFound("it is gone"))
        asked[0](1, 1)
        result = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in result] == [m.QueueDeclareOk, NotFound, NotFound, NotFound]
        assert session.allowance._held == 0
