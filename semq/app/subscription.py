"""An iterator over deliveries, which continues on a new connection after a loss.

The node redelivers unsettled deliveries on the new connection.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

from semq.amqp.errors import AmqpError, ChannelException
from semq.amqp.events import Delivered
from semq.app.errors import NodeUnreachable, RefusedByNode
from semq.app.link import RETRY_S_MIN, NodeConnection
from semq.app.unkept import hold, is_unkept
from semq.foreign_text import shown
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost

log = logging.getLogger(__name__)

SHOWN_MAX = 200  # characters of an unreadable event in the log
PREFETCH_MAX = 65535  # largest number in basic.qos

T = TypeVar("T")
Prepare = Callable[[ClientChannel], Awaitable[str]]
Read = Callable[[ClientChannel, Delivered], T]


class Subscription(Generic[T]):
    """An asynchronous iterator and context manager, created by ``Client``; one task at a time may iterate.

    ``prepare`` declares the queue on a new channel and returns its name; ``read`` converts a delivery to a value.
    ``acknowledges``: each step of the iteration acknowledges earlier deliveries; otherwise the caller settles them.
    ``leaves_out``: deliveries that ``read`` cannot convert are acknowledged and left out. The other arguments are those
    of ``Client``, ``Client.receive`` and ``Client.events``.
    """

    def __init__(
        self,
        link: NodeConnection,
        prepare: Prepare,
        read: Read[T],
        *,
        prefetch: int,
        idle_s: float | None,
        patience_s: float,
        acknowledges: bool = False,
        leaves_out: bool = False,
        behind: int = 0,
        consumer_tag: str = "",
    ) -> None:
        self._link = link
        self._prepare = prepare
        self._read = read
        self._prefetch = prefetch
        self._idle_s = idle_s
        self._patience_s = patience_s
        self._acknowledges = acknowledges
        self._leaves_out = leaves_out
        self._consumer_tag = consumer_tag
        self._arrived: asyncio.Queue[Delivered | None] = asyncio.Queue()
        self._channel: ClientChannel | None = None
        self._behind = behind
        self._unsettled: deque[int] = deque()
        self._room: _Room | None = None
        self._set_aside = 0
        self.is_closed = False
        self.times_opened = 0  #: number of openings, reconnections included

    async def open(self) -> Self:
        """Begin to consume now instead of with the first step of the iteration.

        Raises RefusedByNode, LoginRefused, NodeUnreachable, ForeignBroker, as each step does.
        """
        if self._channel is None or not self._channel.is_open:
            await self._begin()
            if self.is_closed:  # by another task meanwhile
                await self.aclose()
        return self

    async def aclose(self) -> None:
        """Stop consuming; unsettled deliveries return to their queue."""
        self.is_closed = True
        channel, self._channel = self._channel, None
        self._arrived.put_nowait(None)
        if channel is not None:
            channel.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        self.acknowledge(self._behind)
        while not self.is_closed:
            await self.open()
            try:
                async with asyncio.timeout(self._idle_s):
                    delivered = await self._arrived.get()
            except TimeoutError:
                break
            if delivered is None or self._channel is None:
                continue
            try:
                value = self._read(self._channel, delivered)
            except Exception as error:
                if not self._leaves_out or isinstance(error, MemoryError):
                    raise
                log.exception("an event that cannot be read was left out: %s", shown(repr(delivered.body), SHOWN_MAX))
                if self._channel.is_open:
                    self._channel.ack(delivered.delivery_tag)  # otherwise it would arrive again on each connection
                continue
            if self._acknowledges:
                self._unsettled.append(delivered.delivery_tag)
            return value
        raise StopAsyncIteration

    def acknowledge(self, keep: int = 0) -> None:
        """Acknowledge the yielded events, except for the last ``keep``."""
        while len(self._unsettled) > keep:
            tag = self._unsettled.popleft()
            if self._channel is not None and self._channel.is_open:
                self._channel.ack(tag)

    def make_room(self, set_aside: int) -> None:
        """Count so many unsettled deliveries, for whose settlement nobody waits, in addition to the prefetch."""
        if set_aside != self._set_aside:
            self._set_aside = set_aside
            if self._room is not None:
                self._room.make(set_aside)

    async def _begin(self) -> None:
        until = self._link.deadline(self._patience_s)
        self._unsettled.clear()
        while True:
            client = await self._link.connection(until)
            channel: ClientChannel | None = None
            try:
                async with asyncio.timeout(max(until - self._link.clock.monotonic(), 0.1)):
                    channel = await client.open_channel()
                    await channel.qos(self._prefetch, per_channel=True)  # only this limit can change later
                    await self._consume(channel)
                return
            except ChannelException as error:
                raise RefusedByNode({"code": error.code, "text": error.text, "remedy": error.remedy}) from error
            except (LinkLost, AmqpError) as error:
                if self._link.clock.monotonic() >= until:
                    raise NodeUnreachable(address=self._link.address, cause=str(error)) from error
                await asyncio.sleep(RETRY_S_MIN)
            except TimeoutError as error:
                raise NodeUnreachable(address=self._link.address, cause="no answer") from error
            finally:
                if channel is not None and channel is not self._channel:
                    channel.close()  # deliveries return to their queue

    async def _consume(self, channel: ClientChannel) -> None:
        # A new queue: unread deliveries of a lost channel are dropped, because they cannot be settled.
        arrived = self._arrived = asyncio.Queue()
        queue = await self._prepare(channel)
        room = self._room = _Room(channel, self._prefetch)
        room.make(self._set_aside)

        def on_delivered(batch: list[Delivered]) -> None:
            for delivered in batch:
                if is_unkept(delivered):
                    room.hold(delivered)
                else:
                    arrived.put_nowait(delivered)

        channel.on_closed = lambda _: arrived.put_nowait(None)
        channel.on_cancelled = lambda _: channel.close()
        await channel.consume(queue, on_delivered, consumer_tag=self._consumer_tag)
        self._channel = channel
        self.times_opened += 1


class _Room:
    """The prefetch of a channel, raised by the number of held documents, and of those set aside by the reader."""

    def __init__(self, channel: ClientChannel, prefetch: int) -> None:
        self._channel = channel
        self._prefetch = prefetch
        self._held = self._set_aside = 0
        self._changes: set[asyncio.Task[None]] = set()

    def make(self, set_aside: int) -> None:
        """Change the number of documents that the reader has set aside."""
        if set_aside != self._set_aside:
            self._set_aside = set_aside
            self._start(self._change(0))

    def hold(self, unkept: Delivered) -> None:
        """Give back, after a while, a document that does not fit on the disk."""
        self._start(self._change(1))
        hold(unkept, lambda: self._start(self._give_back(unkept.delivery_tag)))

    def _start(self, change: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)

    async def _give_back(self, tag: int) -> None:
        await self._change(-1)  # first: otherwise the node would deliver more than the prefetch
        self._channel.nack(tag)

    async def _change(self, held: int) -> None:
        self._held += held
        if self._prefetch:
            with suppress(LinkLost, AmqpError):  # the iteration continues on another channel
                places = self._prefetch + self._held + self._set_aside
                await self._channel.qos(min(places, PREFETCH_MAX), per_channel=True)
