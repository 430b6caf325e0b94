"""The asynchronous client: send, wait for the receiver, receive.

Run it beside the three nodes of examples/config: ./run python examples/app_client.py
"""

import asyncio
import sys

from semq.app import Client

URLS = ["amqp://app:example-app@127.0.0.1:17671", "amqp://app:example-app@127.0.0.1:17672"]
SENDER, RECEIVER = sys.argv[1:3] if len(sys.argv) > 2 else URLS


async def main() -> None:
    """Send one document, and receive the documents that wait."""
    async with Client(SENDER) as sender, Client(RECEIVER) as receiver:
        sent = await sender.send("56001", b"<Order>S0002</Order>", app_key="trade/order/standard/S0002")
        fate = await sender.wait_for_delivery(sent.lk0, timeout_s=30)
        print(sent.lk0, fate.outcome)
        async with receiver.receive(idle_s=2) as documents:
            async for document in documents:
                print(document.lk0, document.source, document.app_key, document.payload)
                await document.ack()


asyncio.run(main())
