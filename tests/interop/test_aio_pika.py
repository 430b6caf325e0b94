"""aio-pika: its patterns for remote calls and work queues, iteration over a queue, transactions."""

import asyncio

import aio_pika
from aio_pika.patterns import RPC, Master


async def test_aio_pika_makes_remote_calls(url: str) -> None:
    async def multiply(*, x: int, y: int) -> int:
        return x * y

    async with await aio_pika.connect(url) as connection:
        rpc = await RPC.create(await connection.channel())
        await rpc.register("aio.multiply", multiply, auto_delete=True)
        assert await asyncio.gather(*(rpc.proxy.aio.multiply(x=n, y=2) for n in range(20))) == [
            2 * n for n in range(20)
        ]
        await rpc.close()


async def test_requeued_tasks_are_processed_at_their_next_delivery(url: str) -> None:
    done: asyncio.Queue[int] = asyncio.Queue()
    rejected_once: set[int] = set()

    async def work(*, task: int) -> None:
        if task not in rejected_once:
            rejected_once.add(task)
            raise aio_pika.patterns.NackMessage(requeue=True)
        done.put_nowait(task)

    async with await aio_pika.connect_robust(url) as connection:
        channel = await connection.channel()
        await channel.set_qos(2)
        master = Master(channel)
        worker = await master.create_worker("aio.work", work, auto_delete=True)
        for task in range(10):
            await master.create_task("aio.work", {"task": task})
        async with asyncio.timeout(60):
            assert sorted([await done.get() for _ in range(10)]) == list(range(10))
        await worker.close()


async def test_aio_pika_iterates_over_a_queue_bound_by_headers(url: str) -> None:
    async with await aio_pika.connect_robust(url) as connection, connection.channel() as channel:
        exchange = await channel.declare_exchange("aio.x", aio_pika.ExchangeType.HEADERS, auto_delete=True)
        queue = await channel.declare_queue("aio.q", durable=True)
        await queue.bind(exchange, arguments={"x-match": "all", "kind": "order"})
        for kind in ("order", "invoice", "order"):
            order = aio_pika.Message(kind.encode(), headers={"kind": kind}, delivery_mode=2)
            await exchange.publish(order, "", mandatory=False)
        received = []
        async with asyncio.timeout(60), queue.iterator() as messages:
            async for message in messages:
                async with message.process():
                    received.append((message.body, message.headers["kind"]))
                if len(received) == 2:
                    break
        assert received == [(b"order", "order")] * 2
        await queue.delete(if_unused=False, if_empty=False)


async def test_aio_pika_publishes_in_a_transaction(url: str) -> None:
    async with await aio_pika.connect(url) as connection:
        channel = await connection.channel(publisher_confirms=False)
        queue = await channel.declare_queue(exclusive=True)
        async with channel.transaction():
            await channel.default_exchange.publish(aio_pika.Message(b"1"), queue.name)
            assert await queue.get(fail=False) is None
        message = await queue.get(timeout=30)
        assert message is not None
        assert message.body == b"1"
