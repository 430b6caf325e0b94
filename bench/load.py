"""The applications of a measurement: one submits at A, one receives at each partner, one watches A.

They are ordinary AMQP clients in the process of the bench, so the figures include their cost. Every document is
different: its first eight bytes are its number. The receiving application records the numbers, so lost or repeated
documents are noticed.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec

from bench.errors import Incomplete, NoProgress
from bench.network import A, BenchNetwork
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.app import Client
from semq.app.link import read_url
from semq.clock import SystemClock
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.transport.dialer import dial
from semq.transport.turn import Turn

UNCONFIRMED_MAX = 1000  # published documents that the node has not confirmed yet
PREFETCH = 1000
BURST = 50  # documents published before the sockets are served again
POLL_S = 0.05
SIZE_MIN = 8  # bytes: a document begins with its number
SILENCE_S_MAX = 60.0  # longest time without progress
FILLER = bytes(range(256)) * 4


class LoadApplication:
    """One connection to a node, with one channel."""

    def __init__(self, client: ClientLink, channel: ClientChannel) -> None:
        self._client = client
        self.channel = channel

    @classmethod
    async def connect(cls, network: BenchNetwork, name: str) -> Self:
        client = await dial(read_url(network.nodes[name].url), SystemClock(), Turn())
        return cls(client, await client.open_channel())

    async def close(self) -> None:
        """Log out; unacknowledged documents return to their queue."""
        await self._client.close()


class LoadSubmitter(LoadApplication):
    """An application that publishes documents at A."""

    async def begin(self, targets: Sequence[str], encrypt: bool = False) -> Self:
        """Request confirms; the documents go to ``targets`` in turn. With ``encrypt``, A seals them."""
        self._targets = targets
        self._extra_headers: dict[str, int] = {"@Encrypt": 1} if encrypt else {}
        await self.channel.confirm_select()
        self.channel.on_settled = self._settled
        self._settled_event = asyncio.Event()
        self.refused = 0
        return self

    async def submit(self, first: int, count: int, size: int) -> None:
        """Publish ``count`` documents as fast as confirms come, until the last is confirmed. Raises Incomplete."""
        for number in range(first, first + count):
            while self.channel.unconfirmed >= UNCONFIRMED_MAX or not self.channel.may_publish:
                self._settled_event.clear()
                await self._settled_event.wait()
            self.publish(number, size)
            if number % BURST == 0:
                await asyncio.sleep(0)
        while self.channel.unconfirmed:
            self._settled_event.clear()
            await self._settled_event.wait()
        if self.refused:
            raise Incomplete(f"{self.refused} documents were not accepted.")

    def publish(self, number: int, size: int) -> None:
        body = number.to_bytes(SIZE_MIN, "big") + FILLER[: size - SIZE_MIN]
        if len(body) < size:
            body += bytes(size - len(body))
        properties = Properties(
            content_type="application/octet-stream",
            headers={"@AppKey": f"bench/document/plain/{number}", **self._extra_headers},
            delivery_mode=2,
        )
        header = ContentHeader.build(len(body), properties)
        self.channel.publish("semq", self._targets[number % len(self._targets)], header, body, token=number)

    def _settled(self, settled: list[tuple[Any, bool]]) -> None:
        self.refused += sum(not confirmed for _, confirmed in settled)
        self._settled_event.set()


class LoadReceiver(LoadApplication):
    """An application that receives documents and records their numbers."""

    def __init__(self, client: ClientLink, channel: ClientChannel) -> None:
        super().__init__(client, channel)
        self.received: set[int] = set()  #: numbers of documents
        self.repeated = 0
        self.damaged = 0

    async def begin(self, size_of: Callable[[int], int]) -> Self:
        """Begin to consume documents; ``size_of(number)`` returns the expected size of a document."""
        self._size_of = size_of
        await self.channel.qos(PREFETCH)
        await self.channel.consume("semq.inbox", self._on_documents)
        return self

    def _on_documents(self, batch: list[Delivered]) -> None:
        for delivered in batch:
            number = int.from_bytes(delivered.body[:SIZE_MIN], "big")
            if number in self.received:
                self.repeated += 1
            self.received.add(number)
            self.damaged += len(delivered.body) != self._size_of(number)
        self.channel.ack(batch[-1].delivery_tag, multiple=True)


class LoadListener(LoadApplication):
    """An application that receives events at A."""

    async def begin(self, on_delivered: Callable[[int, float], None]) -> Self:
        """Call ``on_delivered(number, moment)`` for each delivered document."""
        self._on_delivered = on_delivered
        queue = (await self.channel.declare_queue("", exclusive=True, auto_delete=True)).queue
        await self.channel.bind_queue(queue, "semq.events", "delivered.#")
        await self.channel.consume(queue, self._on_events, no_ack=True)
        return self

    def _on_events(self, batch: list[Delivered]) -> None:
        now = time.perf_counter()
        for delivered in batch:
            event = msgspec.json.decode(delivered.body, type=dict[str, Any])
            self._on_delivered(int(event["app_key"].rpartition("/")[2]), now)


class Watcher:
    """A reader of the counters of a node. Its requests disturb the measurement less than an event for each document.

    The observed time is late by at most ``POLL_S`` and the time of one request.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    async def connect(cls, network: BenchNetwork, name: str = A) -> Self:
        return cls(await Client(network.nodes[name].url).connect())

    async def close(self) -> None:
        await self._client.close()

    async def counters(self) -> dict[str, int]:
        counters: dict[str, int] = (await self._client.request("node.status"))["counters"]
        return counters

    async def count(self, counter: str) -> int:
        return (await self.counters()).get(counter, 0)

    async def wait_online(self, node_ids: Sequence[str]) -> None:
        """Wait until a hub has a session with each of these institutions."""
        while True:
            nodes = await self._client.request("nodes.list")
            online = {node["node"].partition(".")[2] for node in nodes if node["online"]}
            if online.issuperset(node_ids):
                return
            await asyncio.sleep(POLL_S)

    async def wait_count(self, counter: str, goal: int) -> float:
        """Wait until a counter has reached a number; return the time at which this was observed. Raises NoProgress."""
        last, changed_at = -1, time.perf_counter()
        while True:
            value, now = await self.count(counter), time.perf_counter()
            if value >= goal:
                return now
            if value != last:
                last, changed_at = value, now
            elif now - changed_at > SILENCE_S_MAX:
                raise NoProgress(f"counter {counter} is {value}, not {goal}")
            await asyncio.sleep(POLL_S)
