"""The client's side of an AMQP connection: its channels, the server's requests to stop publishing, and its end.

``dialer.dial`` makes a ``ClientLink``, the owner of a ``SocketLink``. Nothing here reconnects or repeats a message.
"""

import asyncio
from collections.abc import Callable, Mapping

from semq.amqp.connection.client import ClientConnection
from semq.amqp.errors import AmqpError
from semq.amqp.events import (
    Acked,
    Blocked,
    BodyChunk,
    ChannelClosed,
    ChannelOpened,
    ConnectionClosed,
    ConnectionEvent,
    ConnectionFailed,
    ContentFinished,
    ContentStarted,
    Delivered,
    FlowChanged,
    Got,
    MethodReceived,
    Nacked,
    Opened,
    Returned,
    Started,
    Unblocked,
)
from semq.errors import SemqError
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import ForeignBroker, LinkLost
from semq.transport.link import SocketLink
from semq.transport.peer import PeerInfo


class ClientLink:
    """One connection to a server.

    ``on_closed(error)`` is called at the end of the connection; ``error`` is None after an orderly close.
    ``on_blocked(reason)`` is called when the server asks not to publish, and with None when publishing may resume.
    ``check`` and ``product``: see ``DialConfig``.
    """

    def __init__(
        self,
        machine: ClientConnection,
        check: Callable[[PeerInfo], None] = lambda _: None,
        product: str | None = None,
    ) -> None:
        self.machine = machine
        self._product = product
        self.channels: dict[int, ClientChannel] = {}
        self.on_closed: Callable[[AmqpError | LinkLost | None], None] = lambda _: None
        self.on_blocked: Callable[[str | None], None] = lambda _: None
        self.is_blocked = False
        #: whether channels opened from now on keep bodies that arrive in chunks, or drop them
        self.keeps_large_bodies = False
        self.error: AmqpError | LinkLost | None = None
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._opening: dict[int, asyncio.Future[ClientChannel]] = {}
        self._closed = asyncio.Event()
        self._link: SocketLink | None = None
        self._check = check
        self._refusal: SemqError | None = None

    # Interface of the caller.

    @property
    def link(self) -> SocketLink:
        """The socket. Raises LinkLost before the socket is connected."""
        if self._link is None:
            raise LinkLost("the connection was never made")
        return self._link

    @property
    def has_link(self) -> bool:
        return self._link is not None

    @property
    def is_open(self) -> bool:
        return self._opened.done() and not self._closed.is_set() and self.machine.is_open

    async def wait_opened(self) -> None:
        """Wait until the server has opened the virtual host. Raises the error that prevented it."""
        await asyncio.shield(self._opened)

    async def open_channel(self) -> ClientChannel:
        """Open a channel. Raises AmqpError, or LinkLost if the connection is lost."""
        self._check_alive()
        number = self.machine.open_channel()
        waiting = self._opening[number] = self._loop.create_future()
        self.link.request_write()
        channel: ClientChannel = await waiting
        return channel

    async def close(self, timeout_s: float = 5.0) -> None:
        """Close in an orderly way; drop the socket after ``timeout_s`` without an answer."""
        if not self._closed.is_set() and self._link is not None:
            self.machine.close()
            self.link.request_write()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._closed.wait()
            except TimeoutError:
                self.link.abort()
        await self._closed.wait()

    async def wait_closed(self) -> AmqpError | LinkLost | None:
        """Wait for the end of the connection; return the reason, None after an orderly close."""
        await self._closed.wait()
        return self.error

    # Called by the link.

    def link_made(self, link: SocketLink) -> None:
        self._link = link
        try:
            self._check(link.peer)
        except SemqError as error:
            self._refusal = error
            link.abort()  # nothing is sent to an unknown peer

    def process(self, events: list[ConnectionEvent]) -> None:
        """Pass the events of one read to the channels; then these report confirms and deliveries."""
        touched: dict[ClientChannel, None] = {}
        for event in events:
            kind = type(event)
            if kind in _OF_CHANNEL:
                channel = self.channels.get(event.channel)  # type: ignore[attr-defined]
                if channel is not None:
                    channel.process(event)
                    touched[channel] = None
            elif isinstance(event, ContentStarted | BodyChunk | ContentFinished):
                channel = self.channels.get(event.channel)
                if channel is not None:
                    channel.process_part(event)
                    touched[channel] = None
            else:
                self._process_connection(event)
        for channel in touched:
            channel.report_read()

    def _process_connection(self, event: ConnectionEvent) -> None:
        match event:
            case Started(server_properties=properties):
                self._check_product(properties)
            case Opened():
                self._opened.set_result(None)
            case ChannelOpened(channel=number):
                self._channel_opened(number)
            case Blocked(reason=reason):
                self.is_blocked = True
                self.on_blocked(reason)
            case Unblocked():
                self.is_blocked = False
                self.on_blocked(None)
                self.writable(True)
            case ConnectionFailed(error=error) | ConnectionClosed(error=error):
                self.error = self.error or error
            case _:
                pass  # Tuned, ChannelReleased: nothing is left to do

    def _check_product(self, properties: Mapping[str, object]) -> None:
        """Abort if the server is not the expected product, before the password is sent."""
        if self._product is not None and properties.get("product") != self._product:
            facts = {name: str(properties.get(name, ""))[:40] for name in ("product", "version")}
            self._refusal = ForeignBroker(**facts)
            self.link.abort()

    def _channel_opened(self, number: int) -> None:
        channel = self.channels[number] = ClientChannel(self, number, self.keeps_large_bodies)
        waiting = self._opening.pop(number)
        if waiting.cancelled():  # the caller was cancelled
            channel.close()
        else:
            waiting.set_result(channel)

    def writable(self, is_writable: bool) -> None:
        if is_writable:
            for channel in list(self.channels.values()):
                channel.resume()

    def flushed(self) -> None:
        """Do nothing: publishing depends on ``writable`` alone."""

    def link_lost(self, error: Exception | None) -> None:
        if self.error is None and (error is not None or not self.machine.is_closed):
            self.error = LinkLost(cause=repr(error)) if error else LinkLost()
        failure = self.error or LinkLost("the connection was closed")
        if not self._opened.done():
            self._opened.set_exception(self._refusal or failure)
            # Mark the exception as retrieved: nobody reads it if the dialler was cancelled.
            self._opened.exception()
        for waiting in self._opening.values():
            if not waiting.done():
                waiting.set_exception(failure)
        self._opening.clear()
        channels, self.channels = self.channels, {}
        for channel in channels.values():
            channel.end(failure)
        self._closed.set()
        self.on_closed(self.error)

    def forget(self, number: int) -> None:
        self.channels.pop(number, None)

    def _check_alive(self) -> None:
        # The server's reason may arrive before the socket is closed.
        if self.error is not None or self._closed.is_set():
            raise self.error or LinkLost("the connection was closed")


_OF_CHANNEL = frozenset(
    {Acked, ChannelClosed, Delivered, FlowChanged, Got, MethodReceived, Nacked, Returned},
)
