"""Publishing that waits for the confirm, on channels of ``semq.transport``."""

import asyncio
from typing import Any

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError
from semq.transport.client_channel import Body, ClientChannel
from semq.transport.errors import LinkLost


class ConfirmFutures:
    """Callbacks of a channel. A token that is a future receives its confirm; confirms of other tokens are passed to
    the callbacks of the test.
    """

    def __init__(self, channel: ClientChannel) -> None:
        self.waiting: set[asyncio.Future[bool]] = set()
        self.test_on_settled, self.test_on_closed = channel.on_settled, channel.on_closed
        channel.on_settled, channel.on_closed = self.on_settled, self.on_closed

    def on_settled(self, pairs: list[tuple[Any, bool]]) -> None:
        for token, confirmed in pairs:
            if token in self.waiting:
                self.waiting.discard(token)
                if not token.done():
                    token.set_result(confirmed)
        self.test_on_settled([pair for pair in pairs if not isinstance(pair[0], asyncio.Future)])

    def on_closed(self, error: AmqpError | LinkLost | None) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_exception(error or LinkLost("the channel was closed"))
        self.waiting.clear()
        self.test_on_closed(error)


async def publish_and_wait(
    channel: ClientChannel,
    exchange: str,
    routing_key: str,
    header: ContentHeader,
    body: Body,
    *,
    mandatory: bool = False,
) -> bool:
    """Publish; return whether the server accepted the message."""
    futures = getattr(channel.on_settled, "__self__", None)
    if not isinstance(futures, ConfirmFutures):
        futures = ConfirmFutures(channel)
    confirm: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    await channel.wait_ready()
    channel.publish(exchange, routing_key, header, body, mandatory=mandatory, token=confirm)
    futures.waiting.add(confirm)
    return await confirm
