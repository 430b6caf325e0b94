"""Requests to a node: a message with ``reply_to``, and one JSON answer, matched by correlation id.

A request is an operation for ``semq.admin`` or a document. Requests share a channel. A large request has a channel of
its own, because a refusal for its size closes the channel.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, TypedDict

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, ChannelException, LocalMisuse, SyntaxFault
from semq.amqp.events import Delivered
from semq.amqp.spec import BASIC
from semq.app.errors import BodyNotKept, NoAnswer, NodeUnreachable, RefusedByNode, node_error
from semq.app.file_body import BlockBody
from semq.app.link import NodeConnection
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost
from semq.transport.spool import UnkeptBody

ADMIN = "semq.admin"
SHARED_MAX = 1 << 20  # bytes; a larger request has a channel of its own
RETRY_PAUSE_S = 0.05


class NodeAnswer(TypedDict, total=False):
    """The answer to a request."""

    ok: bool
    result: Any  #: of the operation; of a refusal: of the stores of a hub that have answered
    error: Mapping[str, Any]  #: code, text, remedy, facts


class _RequestChannel:
    """A channel with its answer queue and pending requests."""

    def __init__(self, channel: ClientChannel, queue: str) -> None:
        self.channel = channel
        self.was_shared = False  #: several requests had no answer when the channel ended
        self._queue = queue
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[NodeAnswer]] = {}
        self._abandoned: set[str] = set()  #: requests without an answer whose callers were cancelled
        channel.on_closed = self._on_closed

    @classmethod
    async def open(cls, link: NodeConnection, until: float) -> "_RequestChannel":
        client = await link.connection(until)
        channel = await client.open_channel()
        declared = await channel.declare_queue("", exclusive=True, auto_delete=True)
        opened = cls(channel, declared.queue)
        await channel.consume(declared.queue, opened._on_answers, no_ack=True)
        return opened

    async def ask(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes | BlockBody) -> NodeAnswer:
        """Send one request and return its answer.

        Raises the AmqpError that ended the channel, LinkLost, and RefusedByNode for a request that no frame can hold.
        """
        number = str(next(self._numbers))
        answer: asyncio.Future[NodeAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self.channel.wait_ready()
            request = header.amended(reply_to=self._queue, correlation_id=number)
            try:
                if isinstance(body, bytes):
                    self.channel.publish(exchange, routing_key, request, body)
                else:
                    await self.channel.publish_blocks(exchange, routing_key, request, body.blocks())
            except LocalMisuse as error:  # the channel is ready: the request is at fault, and a repeat would fail, too
                raise _refused(error) from error
            try:
                return await answer
            except asyncio.CancelledError:
                self._abandoned.add(number)
                raise
        finally:
            del self._waiting[number]
            answer.cancel()  # also drops the error of a channel that ended before the request was sent

    def _on_answers(self, batch: list[Delivered]) -> None:
        for delivered in batch:
            number = delivered.header.correlation_id or ""
            self._abandoned.discard(number)
            waiting = self._waiting.get(number)
            if waiting is None or waiting.done():
                continue
            if isinstance(delivered.body, UnkeptBody):
                waiting.set_exception(BodyNotKept(bytes=delivered.body.size, fault=delivered.body.fault))
            else:
                waiting.set_result(json.loads(bytes(delivered.body)))

    def _on_closed(self, error: AmqpError | LinkLost | None) -> None:
        self.was_shared = len(self._waiting) + len(self._abandoned) > 1
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error or LinkLost("the channel was closed"))


class Requests:
    """Requests to one node."""

    def __init__(self, link: NodeConnection) -> None:
        self._link = link
        self._shared: _RequestChannel | None = None
        self._opening = asyncio.Lock()

    async def operate(
        self,
        operation: str,
        arguments: Mapping[str, object],
        timeout_s: float,
        *,
        repeat: bool = True,
        by: str = "",
        asked: int = 0,
    ) -> Any:
        """Run an operation of ``semq.admin``; parameters and errors are those of ``Client.request``."""
        body = json.dumps(dict(arguments)).encode()
        headers: dict[str, str | int] = {"x-semq-by": by} if by else {}
        if asked:
            headers["x-semq-asked"] = asked
        properties = Properties(content_type="application/json", headers=headers or None)
        return await self.ask(ADMIN, operation, properties, body, timeout_s, repeat=repeat)

    async def ask(
        self,
        exchange: str,
        routing_key: str,
        properties: Properties,
        body: bytes | BlockBody,
        timeout_s: float,
        *,
        repeat: bool = True,
    ) -> Any:
        """Send a request and return the result. Repeat it if the connection is lost or a shared channel is closed.

        ``repeat=False``: raise NodeUnreachable instead.

        Raises RefusedByNode, NodeBusy, IncompleteAnswer, NodeUnreachable, LoginRefused, ForeignBroker, NoAnswer,
        BodyNotKept.
        """
        until = self._link.deadline(timeout_s)
        header = _header(len(body), properties)
        has_own_channel = len(body) > SHARED_MAX
        is_suspect = False  # whether this message, or another at the same time, has ended a connection
        while True:
            await self._link.connection(until)
            requests: _RequestChannel | None = None
            try:
                async with (
                    asyncio.timeout(until - self._link.clock.monotonic()),
                    self._request_channel(has_own_channel, until) as requests,
                ):
                    return _result(await requests.ask(exchange, routing_key, header, body))
            except TimeoutError as error:
                raise NoAnswer(address=self._link.address, asked=routing_key, timeout_s=timeout_s) from error
            except ChannelException as error:
                if requests is None or not requests.was_shared:
                    raise _refused(error) from error
                if not repeat:
                    raise NodeUnreachable(
                        "The channel was closed before the answer.", address=self._link.address
                    ) from error
                has_own_channel = True  # another request on this channel may have caused the exception
            except (LinkLost, AmqpError) as error:
                is_about_message = isinstance(error, AmqpError) and error.class_id == BASIC
                if not repeat or (is_about_message and is_suspect):
                    raise NodeUnreachable(
                        "The connection was lost before the answer.", address=self._link.address, cause=str(error)
                    ) from error
                is_suspect |= is_about_message  # once more: another request may have been at fault
                await asyncio.sleep(RETRY_PAUSE_S)

    @asynccontextmanager
    async def _request_channel(self, has_own_channel: bool, until: float) -> AsyncIterator[_RequestChannel]:
        if has_own_channel:
            requests = await _RequestChannel.open(self._link, until)
            try:
                yield requests
            finally:
                requests.channel.close()
        else:
            async with self._opening:
                if self._shared is None or not self._shared.channel.is_open:
                    self._shared = await _RequestChannel.open(self._link, until)
                requests = self._shared
            yield requests


def _header(body_size: int, properties: Properties) -> ContentHeader:
    """Return the header of a request. Raises RefusedByNode if AMQP cannot carry the properties, or a node not decode
    them."""
    try:
        header = ContentHeader.build(body_size, properties)
        _ = header.headers  # decoded here as at the node, which would close the connection of all requests
    except (LocalMisuse, SyntaxFault) as error:
        raise _refused(error) from error
    return header


def _result(answer: NodeAnswer) -> Any:
    if not answer.get("ok"):
        raise node_error(answer.get("error", {}), answer.get("result"))
    return answer.get("result")


def _refused(error: AmqpError) -> RefusedByNode:
    """Convert a channel exception or a local error to a refusal, with the SEMQ code at the beginning of its text, if
    any."""
    code, _, text = error.text.removeprefix(f"{error.name} - ").partition(" ")
    if code.startswith("SEMQ-"):
        text, _, remedy = text.partition(" — ")
        return RefusedByNode({"code": code, "text": text, "remedy": remedy})
    return RefusedByNode({"code": error.code, "text": error.text, "remedy": error.remedy})
