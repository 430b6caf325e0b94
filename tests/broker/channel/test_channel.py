"""The end of a consumer or a channel: returned deliveries, remaining state, counters."""

import asyncio
from collections.abc import Callable

from semq.amqp import methods as m
from semq.amqp.errors import AmqpError, NotFound
from semq.amqp.events import Delivered
from semq.broker.queues.queue import Disposition
from tests.broker.test_services import RegisteredServices
from tests.transport.pair import header, pair
from tests.waiting import until


async def test_a_transaction_continues_after_a_service_has_ended_a_consumer() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        link = await endpoints.dial()
        channel = await link.open_channel()
        await channel.call(m.TxSelect(), m.TxSelectOk)
        deliveries: list[Delivered] = []
        ended: list[str] = []
        channel.on_cancelled = ended.append
        tag = await channel.consume("inbox", deliveries.extend)
        services.inbox.put(b"1", b"2")
        await until(lambda: len(deliveries) == 2)
        channel.ack(deliveries[0].delivery_tag)
        channel.publish("door", "now", header(b"kept"), b"kept")
        await channel.qos(0)
        (consumer,) = services.inbox.consumers
        consumer.cancel()
        await until(lambda: bool(ended))
        assert services.inbox.settlements == [(tag, [b"2"], Disposition.LOST)]
        await channel.call(m.TxCommit(), m.TxCommitOk)
        assert [body for _, _, body in services.exchange.published] == [b"kept"]
        assert services.inbox.settlements[1:] == [(tag, [b"1"], Disposition.ACK)]


async def test_unacknowledged_messages_return_in_order_with_those_acknowledged_in_an_open_transaction() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        await channel.call(m.TxSelect(), m.TxSelectOk)
        deliveries: list[Delivered] = []
        tag = await channel.consume("inbox", deliveries.extend)
        services.inbox.put(b"1", b"2", b"3")
        await until(lambda: len(deliveries) == 3)
        channel.ack(deliveries[0].delivery_tag)
        channel.close()
        await until(lambda: bool(services.inbox.settlements))
        assert services.inbox.settlements == [(tag, [b"1", b"2", b"3"], Disposition.LOST)]


async def test_a_channel_that_fails_while_it_waits_drops_the_events_that_it_held() -> None:
    services = RegisteredServices()
    async with pair(prepare=services.prepare) as endpoints:
        channel = await (await endpoints.dial()).open_channel()
        answers: list[Callable[[int, int], None]] = []
        failing: list[AmqpError] = []

        def counts(answer: Callable[[int, int], None]) -> None:
            answers.append(answer)
            if failing:
                raise failing[0]

        services.inbox.counts = counts  # type: ignore[method-assign]
        calls = [
            asyncio.ensure_future(channel.call(m.QueueDeclare("inbox", passive=True), m.QueueDeclareOk))
            for _ in range(4)
        ]
        await until(lambda: bool(answers))
        (session,) = endpoints.server.sessions
        (broker_channel,) = session.channels.values()
        await until(lambda: len(broker_channel.held or ()) == 3)
        failing.append(NotFound("no such queue"))
        answers[0](1, 1)
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(result) for result in results] == [m.QueueDeclareOk, NotFound, NotFound, NotFound]
        assert session.allowance._held == 0
