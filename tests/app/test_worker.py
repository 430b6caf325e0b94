"""The worker: documents that wait while it stops or while a function exceeds its time limit."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from semq.app.client import Client
from semq.app.handlers import Handlers
from semq.app.values import Document
from semq.app.worker import Worker
from semq.umx_t.app_key import AppKey
from tests.waiting import until


@dataclass(slots=True, eq=False)
class OwnDocument(Document):
    """A document without a node, which notes how it was settled."""

    settled: list[str] = field(default_factory=list)

    async def ack(self) -> None:
        self.settled.append("ack")

    async def reject(self) -> None:
        self.settled.append("reject")

    async def requeue(self) -> None:
        self.settled.append("requeue")


class OwnClient:
    """A client whose node delivers these documents."""

    def __init__(self, documents: list[OwnDocument]) -> None:
        self._documents = documents

    @asynccontextmanager
    async def receive(self, *_: Any, **__: Any) -> AsyncIterator[AsyncIterator[OwnDocument]]:
        yield self._deliver()

    async def _deliver(self) -> AsyncIterator[OwnDocument]:
        for document in self._documents:
            yield document
        await asyncio.Event().wait()

    async def request(self, *_: Any) -> None:
        """Accept a report of a failure."""


def worker_of(handlers: Handlers, *names: str) -> tuple[Worker, list[OwnDocument]]:
    """Return a worker that runs one function at a time, and the documents that its node delivers."""
    documents = [OwnDocument(name, "1.a", "1.b", AppKey(), name.encode(), "") for name in names]
    return Worker(cast(Client, OwnClient(documents)), handlers, concurrency=1), documents


async def test_a_document_that_waits_when_the_worker_stops_returns_to_the_queue() -> None:
    handlers, go = Handlers(), asyncio.Event()
    called: list[bytes] = []

    @handlers.on()
    async def handle(_document: Document, body: bytes) -> None:
        called.append(body)
        await go.wait()

    worker, (first, second) = worker_of(handlers, "first", "second")
    running = asyncio.create_task(worker.run())
    await until(lambda: len(worker._running) == 2)
    await until(lambda: bool(called))
    worker.stop()
    go.set()
    await running
    assert (called, first.settled, second.settled) == ([b"first"], ["ack"], ["requeue"])


async def test_a_document_waits_while_a_function_that_exceeded_its_limit_runs() -> None:
    handlers, go = Handlers(), threading.Event()
    called: list[bytes] = []

    @handlers.on(retries=0, time_limit_s=0.05)
    def handle(_document: Document, body: bytes) -> None:
        called.append(body)
        if body == b"late":
            go.wait(10)

    worker, (late, next_) = worker_of(handlers, "late", "next")
    running = asyncio.create_task(worker.run())
    await until(lambda: late.settled == ["reject"])
    await asyncio.sleep(0.2)
    assert (called, next_.settled) == ([b"late"], [])
    go.set()
    await until(lambda: next_.settled == ["ack"])
    assert called == [b"late", b"next"]
    worker.stop()
    await running
