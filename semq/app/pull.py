"""Documents taken on demand: a consumer that ends when it has got documents, which stay unacknowledged afterwards. Used
by ``semq.web``, which returns documents to a request and learns by a later request whether they were processed.
"""

import asyncio
from collections.abc import Callable

from semq.amqp.errors import AmqpError, ChannelException
from semq.amqp.events import Delivered
from semq.app.errors import NodeUnreachable, RefusedByNode
from semq.app.link import NodeConnection
from semq.app.values import Document, read_document
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost

BYTES_MAX = 16 << 20  # total size of the documents of one pull; the last document may exceed it


class Pulled:
    """Documents of one channel, which is closed when all of them are settled."""

    def __init__(self, channel: ClientChannel, documents: list[Document]) -> None:
        self._channel = channel
        self.documents = documents
        self._left = len(documents)

    async def settled(self) -> None:
        """Note that one more document is settled; return when the node has read it. Raises NodeUnreachable."""
        self._left -= 1
        try:
            await self._channel.qos(1)  # the answer shows that the node has read everything sent before
            if self._left <= 0:
                self._channel.close()
        except (LinkLost, AmqpError) as error:
            raise NodeUnreachable("The connection was lost while a document was settled.") from error

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended: the documents are delivered again."""
        return not self._channel.is_open


async def pull(link: NodeConnection, queue: str, at_most: int, wait_s: float, patience_s: float) -> Pulled:
    """Take up to ``at_most`` documents, and no further one from BYTES_MAX on; wait up to ``wait_s`` for the first one.

    Raises RefusedByNode, NodeUnreachable, LoginRefused.
    """
    client = await link.connection(link.deadline(patience_s))
    try:
        channel = await client.open_channel()
        try:
            arrived = await _taken(channel, queue, at_most, wait_s)
            pulled = Pulled(channel, [read_document(channel, one) for one in arrived])
            if not arrived:
                channel.close()
        except BaseException:
            if channel.is_open:
                channel.close()  # documents that have arrived return to the queue
            raise
    except ChannelException as error:
        raise RefusedByNode({"code": error.code, "text": error.text, "remedy": error.remedy}) from error
    except (LinkLost, AmqpError) as error:
        raise NodeUnreachable(address=link.address, cause=str(error)) from error
    return pulled


async def _taken(channel: ClientChannel, queue: str, at_most: int, wait_s: float) -> list[Delivered]:
    """Wait for one document by a consumer, which wakes; get further ones one by one, which bounds their bytes.

    After a wait without a document one is got, too: only an answered basic.get shows that none can be delivered.
    """
    arrived = await _first(channel, queue, wait_s) if wait_s > 0 else []
    size = sum(len(one.body) for one in arrived)
    while len(arrived) < at_most and size < BYTES_MAX:
        got = await channel.get(queue)
        if got is None:
            break
        arrived.append(
            Delivered(
                channel.number,
                "",
                got.delivery_tag,
                got.redelivered,
                got.exchange,
                got.routing_key,
                got.header,
                got.body,
            )
        )
        size += len(got.body)
    return arrived


async def _first(channel: ClientChannel, queue: str, wait_s: float) -> list[Delivered]:
    arrived: list[Delivered] = []
    first = asyncio.Event()

    def on_delivered(batch: list[Delivered]) -> None:
        arrived.extend(batch)
        first.set()

    channel.on_closed = _waker(first)
    channel.on_cancelled = lambda _: channel.close()
    await channel.qos(1)
    tag = await channel.consume(queue, on_delivered)
    try:
        async with asyncio.timeout(wait_s):
            await first.wait()
    except TimeoutError:
        pass
    await channel.cancel(tag)
    return arrived


def _waker(event: asyncio.Event) -> Callable[[object], None]:
    return lambda _: event.set()
