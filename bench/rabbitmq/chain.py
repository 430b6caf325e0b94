"""A chain of three RabbitMQ virtual hosts that stand for a hub and two institutions, as closely as plain brokers can.

Documents go from ``a`` through ``hub`` to ``b``, and a receipt for each comes back, through durable queues and shovels
that acknowledge a message when the next virtual host has confirmed it:

    application at a ─▶ a/documents ─▶ hub/documents ─▶ b/documents ─▶ application at b
    application at a ◀─ a/receipts  ◀─ hub/receipts  ◀─ b/receipts  ◀─ application at b, a receipt for each document

Queues are durable and classic, all messages are persistent. The publisher has at most ``UNCONFIRMED_MAX`` documents
unconfirmed, the application at b at most ``receipts_max`` receipts; shovels and consumers have a prefetch of
``PREFETCH``. A document is acknowledged when its receipt and all earlier ones are confirmed. There are no
statuses, inquiries, deduplication or ledger.
"""

import asyncio
import base64
import hashlib
import math
import time
from collections import deque
from typing import Any

from bench.errors import Incomplete, NoProgress
from bench.load import BURST, FILLER, PREFETCH, SILENCE_S_MAX, SIZE_MIN, UNCONFIRMED_MAX
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.events import Delivered
from semq.clock import SystemClock
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.transport.dialer import DialConfig, dial
from semq.transport.turn import Turn

PLUGINS = ("rabbitmq_shovel",)
USER = "bench"
PASSWORD = "bench"  # the server listens on the loopback interface
HOSTS = ("a", "hub", "b")
DOCUMENTS, RECEIPTS = "documents", "receipts"
# From | to | queue at both.
SHOVELS = (("a", "hub", DOCUMENTS), ("hub", "b", DOCUMENTS), ("b", "hub", RECEIPTS), ("hub", "a", RECEIPTS))


def definitions(port: int) -> dict[str, Any]:
    """Return virtual hosts, queues and shovels of the chain, in the format that RabbitMQ imports at its start."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    return {
        "users": [{
            "name": USER, "password_hash": _password_hash(), "tags": "administrator",
            "hashing_algorithm": "rabbit_password_hashing_sha256",
        }],
        "vhosts": [{"name": host} for host in HOSTS],
        "permissions": [{"user": USER, "vhost": host, **everything} for host in HOSTS],
        "queues": [
            {"name": queue, "vhost": host, "durable": True, "auto_delete": False, "arguments": {}}
            for host in HOSTS for queue in (DOCUMENTS, RECEIPTS)
        ],
        "parameters": [
            {"component": "shovel", "vhost": source, "name": f"{queue}-to-{target}", "value": {
                "src-protocol": "amqp091", "src-uri": _uri(port, source), "src-queue": queue,
                "dest-protocol": "amqp091", "dest-uri": _uri(port, target), "dest-queue": queue,
                "ack-mode": "on-confirm", "src-delete-after": "never", "src-prefetch-count": PREFETCH,
                "reconnect-delay": 1,
            }}
            for source, target, queue in SHOVELS
        ],
    }  # fmt: skip


def _uri(port: int, host: str) -> str:
    return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{port}/{host}"


def _password_hash() -> str:
    salt = b"semq"
    return base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest()).decode()


class ConfirmedTags:
    """The confirmed tags; ``up_to`` is the highest tag up to which all are confirmed."""

    def __init__(self) -> None:
        self.up_to = 0
        self._ahead: set[int] = set()

    def add(self, tag: int) -> None:
        self._ahead.add(tag)
        while self.up_to + 1 in self._ahead:
            self.up_to += 1
            self._ahead.discard(self.up_to)


class RunningChain:
    """The applications at both ends of a running chain."""

    def __init__(self, port: int, size: int, receipts_max: int) -> None:
        self._port = port
        self._size = size
        self._receipts_max = receipts_max
        self._unanswered: deque[Delivered] = deque()
        self._document_header = ContentHeader.build(
            size, Properties(content_type="application/octet-stream", delivery_mode=2)
        )
        self._receipt_header = ContentHeader.build(SIZE_MIN, Properties(delivery_mode=2))
        self._links: list[ClientLink] = []
        self._next_number = 0

    async def begin(self) -> None:
        self._document_publisher, receipts = await self._channel("a"), await self._channel("a")
        documents, self._receipt_publisher = await self._channel("b"), await self._channel("b")
        await self._document_publisher.confirm_select()
        await self._receipt_publisher.confirm_select()
        self._document_settled, self._receipt_arrived = asyncio.Event(), asyncio.Event()
        self._document_publisher.on_settled = lambda _: self._document_settled.set()
        self._confirmed, self._acked = ConfirmedTags(), 0
        self._receipt_publisher.on_settled = lambda settled: self._on_receipts_settled(documents, settled)
        self._receipts: list[int] = []
        await documents.qos(PREFETCH)
        await documents.consume(DOCUMENTS, self._on_documents)
        await receipts.qos(PREFETCH)
        await receipts.consume(RECEIPTS, lambda batch: self._on_receipts(receipts, batch))

    async def end(self) -> None:
        for link in self._links:
            await link.close(2.0)

    async def measure(self, messages: int, rate: float = math.inf) -> float:
        """Return documents per second, from the first publish to the last receipt. Raises Incomplete, NoProgress.

        ``rate``: at most so many documents are published in a second.
        """
        first = self._next_number
        self._next_number += messages
        self._receipts.clear()
        began = time.perf_counter()
        await asyncio.gather(self._submit(first, messages, rate), self._await_receipts(messages))
        seconds = time.perf_counter() - began
        if sorted(self._receipts) != list(range(first, first + messages)):
            raise Incomplete("The chain lost or repeated receipts.")
        return messages / seconds

    async def _channel(self, host: str) -> ClientChannel:
        config = DialConfig("127.0.0.1", self._port, virtual_host=host, user=USER, password=PASSWORD)
        link = await dial(config, SystemClock(), Turn())
        self._links.append(link)
        return await link.open_channel()

    async def _submit(self, first: int, messages: int, rate: float) -> None:
        filler = (FILLER * (self._size // len(FILLER) + 1))[: self._size - SIZE_MIN]
        started = time.perf_counter()
        for number in range(first, first + messages):
            if rate < math.inf:
                await asyncio.sleep(max(started + (number - first) / rate - time.perf_counter(), 0))
            publisher = self._document_publisher
            while publisher.unconfirmed >= UNCONFIRMED_MAX or not publisher.may_publish:
                self._document_settled.clear()
                await self._document_settled.wait()
            publisher.publish("", DOCUMENTS, self._document_header, number.to_bytes(SIZE_MIN, "big") + filler)
            if number % BURST == 0:
                await asyncio.sleep(0)

    async def _await_receipts(self, messages: int) -> None:
        while len(self._receipts) < messages:
            self._receipt_arrived.clear()
            try:
                async with asyncio.timeout(SILENCE_S_MAX):
                    await self._receipt_arrived.wait()
            except TimeoutError as error:
                raise NoProgress(
                    f"{len(self._receipts)} of {messages} receipts came back through the chain."
                ) from error

    def _on_documents(self, batch: list[Delivered]) -> None:
        self._unanswered += batch
        self._publish_receipts()

    def _publish_receipts(self) -> None:
        while self._unanswered and self._receipt_publisher.unconfirmed < self._receipts_max:
            delivered = self._unanswered.popleft()
            number = bytes(delivered.body[:SIZE_MIN])
            self._receipt_publisher.publish("", RECEIPTS, self._receipt_header, number, token=delivered.delivery_tag)

    def _on_receipts_settled(self, documents: ClientChannel, settled: list[tuple[Any, bool]]) -> None:
        for tag, confirmed in settled:
            if confirmed:
                self._confirmed.add(tag)
        if self._confirmed.up_to > self._acked:
            self._acked = self._confirmed.up_to
            documents.ack(self._acked, multiple=True)
        self._publish_receipts()

    def _on_receipts(self, receipts: ClientChannel, batch: list[Delivered]) -> None:
        self._receipts.extend(int.from_bytes(delivered.body, "big") for delivered in batch)
        receipts.ack(batch[-1].delivery_tag, multiple=True)
        self._receipt_arrived.set()
