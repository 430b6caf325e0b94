"""Asking a node and getting answers: a message with ``reply_to`` out, one JSON answer back, matched by correlation id.

The way of ``semq.admin`` (one operation a message), and of documents whose sender wants to know their locator.
Requests share a channel; what is large travels on one of its own, so that a node that refuses it for its size ends
nobody else's request. Used by ``client``.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError, ChannelException
from semq.amqp.events import Delivered
from semq.app.errors import NoAnswer, NodeUnreachable, RefusedByNode, theirs
from semq.app.link import NodeLink
from semq.transport.client_channel import ClientChannel
from semq.transport.errors import LinkLost

ADMIN = "semq.admin"
LARGE = 1 << 20  # octets of a request that gets a channel of its own
RETRY_PAUSE_S = 0.05


class _Desk:
    """One channel with its exclusive answer queue, and who waits for which answer."""

    def __init__(self, channel: ClientChannel, queue: str) -> None:
        self.channel = channel
        self.was_shared = False  #: several requests waited when the channel ended
        self._queue = queue
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        channel.on_closed = self._ended

    @classmethod
    async def open(cls, link: NodeLink, until: float) -> "_Desk":
        """A new channel on the connection to the node."""
        client = await link.connection(until)
        channel = await client.open_channel()
        declared = await channel.declare_queue("", exclusive=True, auto_delete=True)
        desk = cls(channel, declared.queue)
        await channel.consume(declared.queue, desk._answered, no_ack=True)
        return desk

    async def ask(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes) -> dict[str, Any]:
        """One request and its answer. Raises the AmqpError that ended the channel, or LinkLost."""
        number = str(next(self._numbers))
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self.channel.ready()
            asked = header.amended(reply_to=self._queue, correlation_id=number)
            self.channel.publish(exchange, routing_key, asked, body)
            return await answer
        finally:
            del self._waiting[number]

    def _answered(self, batch: list[Delivered]) -> None:
        for delivered in batch:
            waiting = self._waiting.get(delivered.header.correlation_id or "")
            if waiting is not None and not waiting.done():
                waiting.set_result(json.loads(delivered.body))

    def _ended(self, error: AmqpError | LinkLost | None) -> None:
        self.was_shared = len(self._waiting) > 1
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(error or LinkLost("the channel was closed"))


class Requests:
    """Asks one node."""

    def __init__(self, link: NodeLink) -> None:
        self._link = link
        self._desk: _Desk | None = None
        self._opening = asyncio.Lock()

    async def operate(
        self, operation: str, arguments: Mapping[str, Any], timeout_s: float, *, repeat: bool = True
    ) -> Any:
        """An operation of ``semq.admin`` and its result; see ``ask`` for the rest."""
        body = json.dumps(dict(arguments)).encode()
        properties = Properties(content_type="application/json")
        return await self.ask(ADMIN, operation, properties, body, timeout_s, repeat=repeat)

    async def ask(
        self,
        exchange: str,
        routing_key: str,
        properties: Properties,
        body: bytes,
        timeout_s: float,
        *,
        repeat: bool = True,
    ) -> Any:
        """A request and the result in its answer; repeated over a new connection if the first one is lost.

        ``repeat=False``: whatever was asked must not be asked twice, so a lost connection is an error.

        Raises RefusedByNode, NodeBusy, NodeUnreachable, LoginRefused, NoAnswer.
        """
        until = self._link.deadline(timeout_s)
        header = ContentHeader.build(len(body), properties)
        alone = len(body) > LARGE
        while True:
            await self._link.connection(until)
            desk: _Desk | None = None
            try:
                async with asyncio.timeout(until - self._link.clock.monotonic()), self._at_desk(alone, until) as desk:
                    return _result(await desk.ask(exchange, routing_key, header, body))
            except TimeoutError as error:
                raise NoAnswer(address=self._link.address, asked=routing_key, timeout_s=timeout_s) from error
            except ChannelException as error:
                if desk is None or not desk.was_shared:
                    raise _refused(error) from error
                alone = True  # somebody on this channel has asked for the impossible: perhaps not we
            except (LinkLost, AmqpError) as error:
                if not repeat:
                    raise NodeUnreachable(
                        "The connection was lost before the answer.", address=self._link.address
                    ) from error
                await asyncio.sleep(RETRY_PAUSE_S)

    @asynccontextmanager
    async def _at_desk(self, alone: bool, until: float) -> AsyncIterator[_Desk]:
        """The shared desk, or one for this request alone."""
        if alone:
            desk = await _Desk.open(self._link, until)
            try:
                yield desk
            finally:
                await desk.channel.close()
        else:
            async with self._opening:
                if self._desk is None or not self._desk.channel.is_open:
                    self._desk = await _Desk.open(self._link, until)
                desk = self._desk
            yield desk


def _result(answer: dict[str, Any]) -> Any:
    if not answer.get("ok"):
        raise theirs(answer.get("error", {}))
    return answer.get("result")


def _refused(error: AmqpError) -> RefusedByNode:
    """A channel exception as a refusal; the code that the node put into its text becomes ours."""
    code, _, text = error.text.removeprefix(f"{error.name} - ").partition(" ")
    if code.startswith("SEMQ-"):
        text, _, remedy = text.partition(" — ")
        return RefusedByNode({"code": code, "text": text, "remedy": remedy})
    return RefusedByNode({"code": error.code, "text": error.text, "remedy": error.remedy})
