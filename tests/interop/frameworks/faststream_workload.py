# mypy: ignore-errors
# The framework is installed only where ``__main__`` runs this program.
"""FastStream: publishes to a queue, answers a request, and gets a rejected message from a dead-letter queue."""

import asyncio
import sys

from faststream.rabbit import QueueType, RabbitBroker, RabbitQueue

DEAD = RabbitQueue("faststream.dead", queue_type=QueueType.QUORUM, durable=True)
WORK = RabbitQueue(
    "faststream.work",
    queue_type=QueueType.QUORUM,
    durable=True,
    arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "faststream.dead"},
)


async def main(url: str) -> None:
    broker = RabbitBroker(url)
    done: asyncio.Queue[str] = asyncio.Queue()

    @broker.subscriber(WORK)
    async def work(text: str) -> str:
        if text == "bad":
            raise ValueError(text)
        await done.put(text)
        return text.upper()

    @broker.subscriber(DEAD)
    async def dead(text: str) -> None:
        await done.put(f"dead {text}")

    async with broker:
        await broker.start()
        for text in ("a", "b"):
            await broker.publish(text, WORK)
        async with asyncio.timeout(30):
            assert sorted([await done.get(), await done.get()]) == ["a", "b"]
            answer = await broker.request("c", WORK)
            assert await answer.decode() == "C"
            assert await done.get() == "c"
            await broker.publish("bad", WORK)
            assert await done.get() == "dead bad"


asyncio.run(main(sys.argv[1]))
