"""The applications of an institution, written like programs of users: aio-pika, confirms, manual acks, own records.

Both classes reconnect whenever their connection is lost, and collect faults of the node in ``complaints``.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractIncomingMessage
from aio_pika.exceptions import AMQPError, ChannelClosed, DeliveryError

from tests.crash.book import Book, BookEntry
from tests.crash.documents import CrashDocument, DocumentStream, token_of

ORDER_KEYS = ("orders", "invoices", "stock", "交货")
UNORDERED_LANES = 4
LARGE_PAUSES = 8  # the pause between two large documents, as a multiple of the pause of other lanes
PREFETCH = 24
HEARTBEAT_S = 4
CONNECT_S = 10.0
# Longest wait for the answer to a submission. It is long, because the machine may be busy.
ANSWER_S = 60.0
RETRY_S = 0.1
REQUEUED_SHARE = 0.02  # share of the deliveries that a consumer requeues
LOST = (AMQPError, OSError, asyncio.TimeoutError, RuntimeError)  # RuntimeError: aio-pika on a closed channel


async def connect(url: str, trust: Path | None) -> AbstractConnection:
    """Open a connection that does not reconnect by itself. ``trust``: file of authorities; None: without TLS."""
    context = None
    if trust is not None:
        context = ssl.create_default_context(cafile=trust)
        context.check_hostname = False  # the certificate names the node, not the host
    return await aio_pika.connect(f"{url}?heartbeat={HEARTBEAT_S}", timeout=CONNECT_S, ssl_context=context)


async def drop(connection: AbstractConnection | None) -> None:
    if connection is not None:
        with suppress(*LOST, asyncio.CancelledError):
            await asyncio.wait_for(connection.close(), 2.0)


class Submitter:
    """Publishes an institution's documents in lanes: one for each order key, some for unordered and one for large ones.

    A lane repeats its document with the same @Token until it is confirmed, then takes the next one. ``target``:
    address of the other institution; ``group``: address of the group; ``pause_s``: average pause between two documents
    of a lane.
    """

    def __init__(
        self,
        url: str,
        stream: DocumentStream,
        target: str,
        group: str,
        pause_s: float,
        complaints: list[str],
        trust: Path | None = None,
    ) -> None:
        self._url = url
        self._trust = trust
        self._stream = stream
        self._target = target
        self._group = group
        self._pause_s = pause_s
        self._complaints = complaints
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._connecting = asyncio.Lock()
        self._may_submit = asyncio.Event()
        self._busy = 0  #: lanes that submit a document now
        self._idle = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.repeated = 0  #: repeated submissions

    def start(self) -> None:
        """Start the lanes, which wait for ``resume``."""
        keys = (*ORDER_KEYS, *[""] * UNORDERED_LANES)
        next_documents: list[Callable[[], CrashDocument]] = [partial(self._stream.next, key) for key in keys]
        pauses_s = [self._pause_s] * len(next_documents)
        next_documents.append(self._stream.next_large)
        pauses_s.append(self._pause_s * LARGE_PAUSES)
        self._tasks = [
            asyncio.create_task(self._lane(next_document, pause_s, n), name=f"lane {n}")
            for n, (next_document, pause_s) in enumerate(zip(next_documents, pauses_s, strict=True))
        ]
        self._idle.set()

    def resume(self) -> None:
        self._may_submit.set()

    async def rest(self) -> None:
        """Submit no new documents; return when all begun submissions have ended."""
        self._may_submit.clear()
        await self._idle.wait()

    async def stop(self) -> None:
        """End all lanes and the connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await drop(self._connection)

    # ------------------------------------------------------------ inside

    async def _lane(self, next_document: Callable[[], CrashDocument], pause_s: float, number: int) -> None:
        chance = Random(f"{self._url}{number}")  # for the pace only
        while True:
            await self._may_submit.wait()
            self._busy += 1
            self._idle.clear()
            try:
                await self.submit(next_document())
            finally:
                self._busy -= 1
                if not self._busy:
                    self._idle.set()
            await asyncio.sleep(pause_s * 2 * chance.random())

    async def submit(self, document: CrashDocument) -> None:
        message = aio_pika.Message(document.body, headers=document.headers, content_type="application/octet-stream")
        target = self._group if document.is_to_group else self._target
        while True:
            channel = await self._open()
            try:
                exchange = await channel.get_exchange("semq", ensure=False)
                await exchange.publish(message, target, mandatory=False, timeout=ANSWER_S)
            except ChannelClosed as error:
                self._complaints.append(f"{document.token} was refused: {error}")
                return
            except TimeoutError:
                self._complaints.append(f"{document.token} was neither confirmed nor refused in {ANSWER_S:g} s")
                await drop(self._connection)
            except DeliveryError:
                await asyncio.sleep(RETRY_S)  # the document was nacked, or the answer was lost
            except LOST:
                await asyncio.sleep(RETRY_S)
            else:
                self._stream.accepted.append(document)
                return
            self.repeated += 1

    async def _open(self) -> AbstractChannel:
        """Return the channel of all lanes."""
        async with self._connecting:
            while self._channel is None or self._channel.is_closed:
                await drop(self._connection)
                self._connection = None
                try:
                    self._connection = await connect(self._url, self._trust)
                    self._channel = await self._connection.channel(publisher_confirms=True)
                except LOST:
                    await asyncio.sleep(RETRY_S)
            return self._channel


class DocumentConsumer:
    """Receives an institution's documents: writes them into the record, acknowledges most and requeues a few."""

    def __init__(self, url: str, book: Book, chance: Random, complaints: list[str], trust: Path | None = None) -> None:
        self._url = url
        self._trust = trust
        self._book = book
        self._chance = chance
        self._complaints = complaints
        self._task: asyncio.Task[None] | None = None
        self._connection: AbstractConnection | None = None
        self.received = 0  #: new documents
        self.repeats = 0  #: documents that were received again

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="consumer")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await drop(self._connection)

    async def _run(self) -> None:
        while True:
            with suppress(*LOST):
                await self._session()
            await drop(self._connection)
            await asyncio.sleep(RETRY_S)

    async def _session(self) -> None:
        self._connection = await connect(self._url, self._trust)
        channel = await self._connection.channel(publisher_confirms=False)
        await channel.set_qos(prefetch_count=PREFETCH)
        queue = await channel.get_queue("semq.inbox", ensure=False)
        closed = asyncio.Event()
        channel.close_callbacks.add(lambda *_: closed.set())
        await queue.consume(self._ignore_losses(self._record))
        await closed.wait()

    def _ignore_losses(
        self, act: Callable[[AbstractIncomingMessage], Awaitable[None]]
    ) -> Callable[[AbstractIncomingMessage], Awaitable[None]]:
        async def guarded(message: AbstractIncomingMessage) -> None:
            with suppress(*LOST):  # the connection was lost: the document is delivered again
                await act(message)

        return guarded

    async def _record(self, message: AbstractIncomingMessage) -> None:
        if self._chance.random() < REQUEUED_SHARE:
            await message.nack(requeue=True)
            return
        headers = message.headers
        entry = BookEntry(
            str(headers["@LK0"]), token_of(message.body), sha256(message.body).hexdigest(),
            str(headers.get("@OrderKey", "")), int(str(headers["@Deliveries"])),
        )  # fmt: skip
        if headers["@Digest"] != entry.digest:
            self._complaints.append(f"{entry.token} arrived with another digest than its @Digest")
        is_flagged = bool(message.redelivered)
        if is_flagged != (entry.deliveries > 1):
            self._complaints.append(f"{entry.token}: redelivered {is_flagged}, but @Deliveries {entry.deliveries}")
        if self._book.write(entry, flagged=is_flagged):
            self.received += 1
        else:
            self.repeats += 1
        await message.ack()
