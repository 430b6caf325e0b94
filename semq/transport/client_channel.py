"""One channel of a dialled connection: requests with replies, publishes with confirms, consumers.

Deliveries and confirms are reported in one list for each read of the socket. Created by
``client.ClientLink.open_channel``.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, TypeVar

from semq.amqp import methods as m
from semq.amqp.connection.channel import content_event
from semq.amqp.connection.client import ClientConnection
from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError, LocalMisuse, UnexpectedFrame
from semq.amqp.events import (
    Acked,
    BodyChunk,
    ChannelClosed,
    ConnectionEvent,
    ContentFinished,
    ContentStarted,
    Delivered,
    FlowChanged,
    Got,
    MethodReceived,
    Nacked,
    Returned,
)
from semq.amqp.wire import Table
from semq.transport.errors import LinkLost
from semq.transport.link import SocketLink
from semq.transport.spool import SpooledBody, UnkeptBody

Body: TypeAlias = bytes | memoryview
OnDelivered: TypeAlias = Callable[[list[Delivered]], None]
Reply = TypeVar("Reply", bound=m.Method)


class ChannelOwner(Protocol):
    """The connection as channels use it. Implemented by ``client.ClientLink``."""

    machine: ClientConnection
    is_blocked: bool  #: the server takes no messages for now

    @property
    def link(self) -> SocketLink:
        """The connected socket."""

    def forget(self, number: int) -> None:
        """Remove a channel that has ended."""


class ClientChannel:
    """A channel. The callbacks are attributes and may be set at any time:

    ``on_settled(list of (token, confirmed))``: publishes were confirmed or refused;
    ``on_returned(Returned)``: a mandatory message had no queue; called before its confirm;
    ``on_cancelled(consumer_tag)``: the server ended a consumer, usually because its queue was deleted;
    ``on_ready()``: publishing may be possible again;
    ``on_closed(error)``: the channel has ended; ``error`` is None after an orderly end.
    """

    def __init__(self, owner: ChannelOwner, number: int, keeps_large_bodies: bool = False) -> None:
        """``keeps_large_bodies``: a body that arrives in chunks is put in a file; otherwise it is dropped."""
        self.number = number
        self._keeps_large_bodies = keeps_large_bodies
        self._spool: SpooledBody | UnkeptBody | None = None
        self._writable: asyncio.Event | None = None
        self.on_settled: Callable[[list[tuple[object, bool]]], None] = lambda _: None
        self.on_returned: Callable[[Returned], None] = lambda _: None
        self.on_cancelled: Callable[[str], None] = lambda _: None
        self.on_ready: Callable[[], None] = lambda: None
        self.on_closed: Callable[[AmqpError | LinkLost | None], None] = lambda _: None
        self.is_open = True
        self.is_confirming = False
        self.error: AmqpError | LinkLost | None = None
        self._owner = owner
        self._machine = owner.machine
        self._link = owner.link
        self._loop = asyncio.get_running_loop()
        self._calls: deque[asyncio.Future[object]] = deque()
        self._consumers: dict[str, OnDelivered] = {}
        self._delivered: dict[str, list[Delivered]] = {}
        self._settled: list[tuple[object, bool]] = []
        self._unconfirmed: dict[int, object] = {}  # tokens, by number of the publish
        self._published = 0  # number of the last publish
        self._confirmed_to = 0  # the highest number in a confirm with ``multiple``
        self._consumers_made = 0
        self._ready: asyncio.Event | None = None
        self._streamed: ContentStarted | None = None  # the content whose body is arriving in chunks

    # Publishing.

    @property
    def may_publish(self) -> bool:
        """Whether a message may be published.

        False on a closed channel, while the socket is full, while the server takes no messages, and while a body is
        being sent in blocks.
        """
        if not self.is_open or self._owner.is_blocked or not self._link.is_writable:
            return False
        try:
            return self._machine.may_send_content(self.number)
        except LocalMisuse:
            return False  # the peer has closed the channel; that event is not processed yet

    @property
    def unconfirmed(self) -> int:
        """The number of publishes without a confirm."""
        return len(self._unconfirmed)

    async def wait_ready(self) -> None:
        """Wait for ``may_publish``. Raises LinkLost or an AmqpError if the channel ends."""
        while not self.may_publish:
            self._check_open()
            self._ready = self._ready or asyncio.Event()
            await self._ready.wait()

    def publish(
        self,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Body,
        *,
        mandatory: bool = False,
        token: object = None,
    ) -> int:
        """Send one message at the end of this turn. Check ``may_publish`` between batches.

        Returns the number of the message (1, 2, …), or 0 on a channel without confirms. ``token`` is passed to
        ``on_settled``.
        """
        self._check_open()
        self._machine.publish(self.number, exchange, routing_key, header, body, mandatory)
        self._link.request_write()
        if not self.is_confirming:
            return 0
        self._published += 1
        self._unconfirmed[self._published] = token
        return self._published

    async def publish_blocks(
        self, exchange: str, routing_key: str, header: ContentHeader, blocks: Iterable[bytes]
    ) -> None:
        """Send a message on a channel without confirms, with the body in blocks, as fast as the server reads.

        If ``blocks`` raises, or the caller is cancelled, the connection is aborted. Raises LinkLost, or the AmqpError
        that closed the channel.
        """
        await self.wait_ready()
        self._machine.start_content(self.number, m.BasicPublish(exchange, routing_key), header)
        try:
            for block in blocks:
                while not self._link.is_writable:
                    self._writable = self._writable or asyncio.Event()
                    await self._writable.wait()
                    self._check_open()
                self._check_open()
                self._machine.send_chunk(self.number, block)
                self._link.request_write()
                await asyncio.sleep(0)  # the block is written at the end of the turn
        except LocalMisuse:
            self._check_open()
            raise LinkLost("the channel was closed") from None
        except BaseException:
            if self.is_open:
                self._link.abort()
            raise

    # Consuming.

    async def consume(
        self,
        queue: str,
        on_delivered: OnDelivered,
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str = "",
        arguments: Table | None = None,
    ) -> str:
        """Start a consumer and return its tag."""
        self._consumers_made += 1
        tag = consumer_tag or f"semq.{self.number}.{self._consumers_made}"
        self._consumers[tag] = on_delivered
        try:
            await self.call(
                m.BasicConsume(queue, tag, no_ack=no_ack, exclusive=exclusive, arguments=arguments or {}),
                m.BasicConsumeOk,
            )
        except BaseException:
            self._consumers.pop(tag, None)
            raise
        return tag

    async def cancel(self, consumer_tag: str) -> None:
        """End a consumer; messages may arrive until this returns."""
        await self.call(m.BasicCancel(consumer_tag), m.BasicCancelOk)
        self._consumers.pop(consumer_tag, None)

    async def qos(self, prefetch_count: int, *, per_channel: bool = False) -> None:
        """Limit the number of unacknowledged deliveries, for each consumer or for the channel; 0 for no limit."""
        await self.call(m.BasicQos(0, prefetch_count, per_channel), m.BasicQosOk)

    def ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """Send basic.ack. On a channel that has ended, ``ack``, ``nack`` and ``reject`` do nothing."""
        self._settle_delivery(lambda: self._machine.ack(self.number, delivery_tag, multiple))

    def nack(self, delivery_tag: int, multiple: bool = False, requeue: bool = True) -> None:
        self._settle_delivery(lambda: self._machine.nack(self.number, delivery_tag, multiple, requeue))

    def reject(self, delivery_tag: int, requeue: bool = True) -> None:
        self._settle_delivery(lambda: self._machine.reject(self.number, delivery_tag, requeue))

    def _settle_delivery(self, send: Callable[[], None]) -> None:
        if not self.is_open:
            return
        try:
            send()
        except LocalMisuse:
            return  # as in ``may_publish``
        self._link.request_write()

    async def get(self, queue: str, no_ack: bool = False) -> Got | None:
        """Return one message, or None when the queue is empty."""
        reply = await self._ask(m.BasicGet(queue, no_ack))
        return reply if isinstance(reply, Got) else None

    # Everything else.

    async def call(self, method: m.Method, reply: type[Reply]) -> Reply:
        """Send a method and return its reply. Raises UnexpectedFrame for a reply of another type, LinkLost, or the
        AmqpError that closed the channel.
        """
        answer = await self._ask(method)
        if not isinstance(answer, reply):
            raise UnexpectedFrame(f"{method.row.name} was answered by {answer!r}")
        return answer

    async def confirm_select(self) -> None:
        """Request confirms of all later publishes."""
        await self.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        self.is_confirming = True

    async def declare_queue(self, queue: str = "", **settings: Any) -> m.QueueDeclareOk:
        """Send queue.declare; ``settings``: arguments of the method."""
        return await self.call(m.QueueDeclare(queue, **settings), m.QueueDeclareOk)

    async def declare_exchange(self, exchange: str, kind: str = "direct", **settings: Any) -> None:
        await self.call(m.ExchangeDeclare(exchange, kind, **settings), m.ExchangeDeclareOk)

    async def bind_queue(self, queue: str, exchange: str, routing_key: str = "") -> None:
        await self.call(m.QueueBind(queue, exchange, routing_key), m.QueueBindOk)

    def close(self) -> None:
        """Close without waiting for the reply. Unacknowledged messages return to their queue."""
        if self.is_open:
            self._machine.close_channel(self.number)
            self._link.request_write()
            self.end(None)

    # Called by the connection.

    def process(self, event: ConnectionEvent) -> None:
        match event:
            case Delivered():
                self._delivered.setdefault(event.consumer_tag, []).append(event)
            case Acked():
                self._settle(event.delivery_tag, event.multiple, True)
            case Nacked():
                self._settle(event.delivery_tag, event.multiple, False)
            case Returned():
                self.on_returned(event)
            case Got():
                self._answer(event)
            case MethodReceived(method=m.BasicCancel(consumer_tag=tag)):
                self._report_deliveries(tag)
                self._consumers.pop(tag, None)
                self.on_cancelled(tag)
            case MethodReceived():
                self._answer(event.method)
            case FlowChanged():
                self.resume()
            case ChannelClosed():
                self.end(event.error)
            case _:
                raise AssertionError(f"no channel expects {event!r}")

    def process_part(self, event: ContentStarted | BodyChunk | ContentFinished) -> None:
        """Process a part of a content whose body arrives in chunks, and report the content when it is complete.

        If the file system cannot store the body, an ``UnkeptBody`` is reported instead: an exception would end the
        connection, which other channels use, too.
        """
        if isinstance(event, ContentStarted):
            self._streamed, self._spool = event, None
        if self._streamed is None:
            return
        header = self._streamed.header
        try:
            self._write_part(event)
        except OSError as error:
            self._spool = UnkeptBody(header.body_size, error)
        if isinstance(event, ContentFinished):
            body: Any = b"" if self._spool is None else self._spool
            self._spool = None
            self.process(content_event(self.number, self._streamed.method, header, body))

    def report_read(self) -> None:
        """Report the confirms and deliveries collected during this read."""
        if self._settled:
            settled, self._settled = self._settled, []
            self.on_settled(settled)
        for tag in list(self._delivered):
            self._report_deliveries(tag)

    def resume(self) -> None:
        """Resume publishing, if it is possible again."""
        if self._writable is not None:
            self._writable.set()
            self._writable = None
        if self.is_open and self.may_publish:
            if self._ready is not None:
                self._ready.set()
                self._ready = None
            self.on_ready()

    def end(self, error: AmqpError | LinkLost | None) -> None:
        """End the channel. Report what has arrived, then raise the error, or LinkLost, in waiting callers."""
        if not self.is_open:
            return
        self.is_open = False
        self.error = error
        self._spool = None
        self.report_read()
        self._owner.forget(self.number)
        failure = error or LinkLost("the channel was closed")
        for future in self._calls:
            if not future.done():
                future.set_exception(failure)
        self._calls.clear()
        for event in (self._ready, self._writable):
            if event is not None:
                event.set()
        self.on_closed(error)

    # Inside.

    def _write_part(self, event: ContentStarted | BodyChunk | ContentFinished) -> None:
        if isinstance(event, ContentStarted):
            self._spool = SpooledBody() if self._keeps_large_bodies else None
        elif isinstance(self._spool, SpooledBody):
            if isinstance(event, BodyChunk):
                self._spool.add(event.data)
            else:
                self._spool.flush()

    async def _ask(self, method: m.Method) -> object:
        self._check_open()
        answer: asyncio.Future[object] = self._loop.create_future()
        self._machine.send(self.number, method)
        self._calls.append(answer)
        self._link.request_write()
        return await answer

    def _answer(self, value: object) -> None:
        # The future of a cancelled caller stays in the queue, so that replies match their requests.
        waiting = self._calls.popleft()
        if not waiting.done():
            waiting.set_result(value)

    def _report_deliveries(self, tag: str) -> None:
        batch = self._delivered.pop(tag, None)
        consumer = self._consumers.get(tag)
        if batch and consumer is not None:
            consumer(batch)

    def _settle(self, tag: int, multiple: bool, confirmed: bool) -> None:
        # A range begins after the last multiple confirm, so that each number is visited once.
        numbers = range(self._confirmed_to + 1, tag + 1) if multiple else (tag,)
        if multiple:
            self._confirmed_to = max(self._confirmed_to, tag)
        for number in numbers:
            if number in self._unconfirmed:
                self._settled.append((self._unconfirmed.pop(number), confirmed))

    def _check_open(self) -> None:
        if not self.is_open:
            raise self.error or LinkLost("the channel was closed")
