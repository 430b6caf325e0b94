"""A node and aio-pika: publisher confirms, manual acknowledgements, many documents under way."""

import asyncio
from uuid import uuid4

import aio_pika
import pytest
from aio_pika.exceptions import ChannelPreconditionFailed

from tests.app.network import Network


async def test_documents_can_be_sent_and_received_with_aio_pika(network: Network) -> None:
    bodies = {f"{uuid4()}".encode() for _ in range(50)}
    sending = await aio_pika.connect(network.sender.url)
    receiving = await aio_pika.connect_robust(network.receiver.url)
    async with sending, receiving:
        exchange = await (await sending.channel(publisher_confirms=True)).get_exchange("semq")

        async def publish(body: bytes) -> None:
            message = aio_pika.Message(body, headers={"@AppKey": "trade/order/standard/A1", "@SaveFwd": 3})
            await exchange.publish(message, "56001/aio")

        await asyncio.gather(*map(publish, bodies))
        channel = await receiving.channel()
        await channel.set_qos(prefetch_count=10)
        queue = await channel.get_queue("semq.inbox.aio")
        missing = set(bodies)
        async with queue.iterator(timeout=30) as documents:
            async for document in documents:
                async with document.process():
                    assert document.headers["@AppKey"] == "trade/order/standard/A1"
                    missing.remove(document.body)
                if not missing:
                    break


async def test_bad_input_is_an_exception_of_the_channel(network: Network) -> None:
    connection = await aio_pika.connect(network.sender.url)
    async with connection:
        channel = await connection.channel(publisher_confirms=True)
        exchange = await channel.get_exchange("semq")
        with pytest.raises(ChannelPreconditionFailed) as caught:
            await exchange.publish(aio_pika.Message(b"x", headers={"@SaveFwd": 7}), "56001")
        assert "SEMQ-1102" in str(caught.value)
