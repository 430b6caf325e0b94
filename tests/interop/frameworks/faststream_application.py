# mypy: ignore-errors
# The framework is installed only where ``__main__`` runs this program.
"""FastStream as an application of two institutions: documents, an answer of the node, a refusal, a second delivery."""

import asyncio
import sys

from aio_pika.exceptions import ChannelNotFoundEntity
from faststream import AckPolicy
from faststream.rabbit import RabbitBroker, RabbitExchange, RabbitMessage, RabbitQueue

SUBMISSION = RabbitExchange("semq", declare=False)
INBOX = RabbitQueue("semq.inbox", declare=False)


async def main(sender_url: str, receiver_url: str, target: str) -> None:
    sender, receiver = RabbitBroker(sender_url), RabbitBroker(receiver_url)
    done: asyncio.Queue[object] = asyncio.Queue()
    refused_once: list[object] = []

    @receiver.subscriber(INBOX, ack_policy=AckPolicy.NACK_ON_ERROR)
    async def order(body: dict, message: RabbitMessage) -> None:
        if body == {"n": 3} and not refused_once:
            refused_once.append(body)
            raise ValueError("not yet")
        await done.put((body, message.headers["@Source"], message.headers.get("ref"), message.correlation_id))

    async with sender, receiver, asyncio.timeout(90):
        await sender.start()
        await receiver.start()
        await sender.publish({"n": 1}, "", SUBMISSION, routing_key=target, headers={"ref": "R1"}, correlation_id="C1")
        assert await done.get() == ({"n": 1}, "1.10008", "R1", "C1")
        answer = await sender.request({"n": 2}, "", SUBMISSION, routing_key=target)
        assert (await answer.decode())["result"]["lk0"]
        assert (await done.get())[0] == {"n": 2}
        await sender.publish({"n": 3}, "", SUBMISSION, routing_key=target)
        assert (await done.get())[0] == {"n": 3}
        reason = ""
        try:
            await sender.publish({"n": 4}, "", SUBMISSION, routing_key="99999")
        except ChannelNotFoundEntity as error:
            reason = str(error)
        assert "SEMQ-1201" in reason, reason


asyncio.run(main(*sys.argv[1:]))
