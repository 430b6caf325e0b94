"""Documents taken on demand; the caller settles each one later."""

import asyncio
from contextlib import suppress
from functools import partial

from semq.amqp.errors import AmqpError, ChannelException
from semq.amqp.events import Delivered
from semq.amqp.methods import TxCommit, TxCommitOk, TxSelect, TxSelectOk
from semq.app.errors import BodyNotKept, NodeUnreachable, RefusedByNode
from semq.app.link import NodeConnection
from semq.app.unkept import hold, is_unkept
from semq.app.values import Document, read_document
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost

BYTES_MAX = 16 << 20  # total size of the documents of one pull; the last document may exceed it


class PulledDocuments:
    """Documents of one channel, which is transactional: ``note_settled`` makes settlements take effect.

    The channel is closed when all documents are settled and an unkept one has been given back.
    """

    def __init__(self, channel: ClientChannel, documents: list[Document]) -> None:
        self._channel = channel
        self.documents = documents
        self._unsettled = len(documents)
        self._giving_back: asyncio.Future[None] | None = None

    async def note_settled(self) -> None:
        """Note that one more document is settled; return after the commit of this. Raises NodeUnreachable."""
        try:
            await self._channel.call(TxCommit(), TxCommitOk)
        except (LinkLost, AmqpError) as error:
            raise NodeUnreachable("The connection was lost while a document was settled.") from error
        finally:
            # Not before the reply: closing the channel would fail concurrent calls that settle other documents.
            self._end_one()

    def hold(self, unkept: Delivered) -> BodyNotKept:
        """Give back, after a while, a document that does not fit on the disk; return its error."""
        self._unsettled += 1
        return hold(unkept, partial(self._give_back, unkept.delivery_tag))

    def _give_back(self, tag: int) -> None:
        self._channel.nack(tag)
        self._giving_back = asyncio.ensure_future(self._note_given_back())

    async def _note_given_back(self) -> None:
        with suppress(NodeUnreachable):
            await self.note_settled()

    def _end_one(self) -> None:
        self._unsettled -= 1
        if self._unsettled <= 0:
            self._channel.close()


async def pull(link: NodeConnection, queue: str, at_most: int, wait_s: float, patience_s: float) -> PulledDocuments:
    """Take up to ``at_most`` documents, but none after BYTES_MAX bytes; wait up to ``wait_s`` for the first.

    Raises RefusedByNode, NodeUnreachable, LoginRefused, and BodyNotKept if the first does not fit on the disk.
    """
    client = await link.connection(link.deadline(patience_s))
    try:
        channel = await client.open_channel()
        try:
            arrived = await _collect(channel, queue, at_most, wait_s)
            unkept = arrived.pop() if arrived and is_unkept(arrived[-1]) else None
            pulled = PulledDocuments(channel, [read_document(channel, delivered) for delivered in arrived])
            if unkept is None and not arrived:
                channel.close()
            else:
                await channel.call(TxSelect(), TxSelectOk)
        except BaseException:
            if channel.is_open:
                channel.close()  # documents that have arrived return to the queue
            raise
    except ChannelException as error:
        raise RefusedByNode({"code": error.code, "text": error.text, "remedy": error.remedy}) from error
    except (LinkLost, AmqpError) as error:
        raise NodeUnreachable(address=link.address, cause=str(error)) from error
    if unkept is not None:
        no_room = pulled.hold(unkept)
        if not arrived:
            raise no_room
    return pulled


async def _collect(channel: ClientChannel, queue: str, at_most: int, wait_s: float) -> list[Delivered]:
    """Wait for the first document with a consumer; get others one by one, so that their size is bounded.

    Only the reply to basic.get shows that the queue is empty. A document whose body was dropped is the last one.
    """
    arrived = await _first_delivery(channel, queue, wait_s) if wait_s > 0 else []
    size = sum(delivered.header.body_size for delivered in arrived)
    while len(arrived) < at_most and size < BYTES_MAX and not (arrived and is_unkept(arrived[-1])):
        reply = await channel.get(queue)
        if reply is None:
            break
        arrived.append(
            Delivered(
                channel.number,
                "",
                reply.delivery_tag,
                reply.redelivered,
                reply.exchange,
                reply.routing_key,
                reply.header,
                reply.body,
            )
        )
        size += reply.header.body_size
    return arrived


async def _first_delivery(channel: ClientChannel, queue: str, wait_s: float) -> list[Delivered]:
    arrived: list[Delivered] = []
    arrival = asyncio.Event()

    def on_delivered(batch: list[Delivered]) -> None:
        arrived.extend(batch)
        arrival.set()

    channel.on_closed = lambda _: arrival.set()
    channel.on_cancelled = lambda _: channel.close()
    await channel.qos(1)
    tag = await channel.consume(queue, on_delivered)
    try:
        async with asyncio.timeout(wait_s):
            await arrival.wait()
    except TimeoutError:
        pass
    await channel.cancel(tag)
    return arrived
