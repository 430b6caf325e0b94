"""The worker: waiting documents, and failures whose error the node does not store."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from semq.app.client import Client
from semq.app.errors import NodeBusy
from semq.app.handlers import Handlers
from semq.app.values import Document
from semq.app.worker import Worker, report
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
        self.is_busy = False

    @asynccontextmanager
    async def receive(self, *_: Any, **__: Any) -> AsyncIterator[AsyncIterator[OwnDocument]]:
        yield self._deliver()

    async def _deliver(self) -> AsyncIterator[OwnDocument]:
        for document in self._documents:
            yield document
        await asyncio.Event().wait()

    async def request(self, *_: Any) -> None:
        """Accept a report of a failure, or refuse it."""
        if self.is_busy:
            raise NodeBusy({"code": "SEMQ-3001", "text": "The database is away."})


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


class Unprintable(Exception):
    """An exception of an application that has no text."""

    def __str__(self) -> str:
        raise KeyError(self.args[0])


@pytest.mark.parametrize("error", [ValueError("bad"), asyncio.CancelledError(), Unprintable("x")])
async def test_a_document_is_parked_also_if_the_node_does_not_store_the_error(error: BaseException) -> None:
    handlers = Handlers()

    @handlers.on(retries=0)
    async def handle(_document: Document, _body: bytes) -> None:
        raise error

    worker, documents = worker_of(handlers, "first", "second", "third")
    cast(OwnClient, worker._client).is_busy = True
    running = asyncio.create_task(worker.run())
    await until(lambda: all(document.settled == ["reject"] for document in documents))
    await until(lambda: worker.failed == 3)
    worker.stop()
    await running


async def test_a_function_that_still_runs_after_the_grace_time_is_cancelled_and_its_document_stays_unsettled() -> None:
    handlers = Handlers()
    called: list[bytes] = []

    @handlers.on(retries=0)
    async def handle(_document: Document, body: bytes) -> None:
        called.append(body)
        await asyncio.Event().wait()

    worker, (document,) = worker_of(handlers, "endless")
    running = asyncio.create_task(worker.run(grace_s=0.01))
    await until(lambda: bool(called))
    worker.stop()
    await running
    assert (document.settled, worker.failed) == ([], 0)


@pytest.mark.parametrize("text", ["a\0b", "x" * 70_000, "file \udcff"])
def test_a_report_is_text_that_a_node_stores(text: str) -> None:
    kept = report(ValueError(text), 1, 1, "host.1")
    assert "\0" not in kept
    assert len(kept) < 1 << 14
    assert kept.encode()
    assert "(attempts 1, deliveries 1, by host.1)" in kept
