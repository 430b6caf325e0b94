"""The application with large documents of ``./run bench large --beside``: a process of its own, as in production.

It can delay the applications with small documents only through the nodes. It sends to a user of B and receives as that
user. For each line on standard input it sends one portion, and writes one line when all its documents have been
received and acknowledged.
"""

import asyncio
import json
import os
import random
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import uvloop

from bench.errors import Incomplete
from semq.app import Client
from semq.app.file_body import FileBody
from semq.app.subscription import Subscription
from semq.app.values import Document

USER = "bulk"
PATIENCE_S = 600.0  # time to wait for an unavailable node


class BulkTask(NamedTuple):
    """The addresses of the nodes, and the documents of one portion."""

    url_a: str
    url_b: str
    target: str  #: node id of B
    path: str  #: file with the document, if ``per_s`` is 0
    size: int  #: bytes of a document
    per_s: float  #: 0: one document only
    seconds: float  #: duration of the portion, if ``per_s`` is not 0
    seal: bool


class BulkLoad:
    def __init__(self, task: BulkTask) -> None:
        self._task = task
        self._pauses = random.Random(1)

    @classmethod
    async def connect(cls, task: BulkTask, stack: AsyncExitStack) -> Self:
        load = cls(task)
        load._sender = await stack.enter_async_context(Client(task.url_a, patience_s=PATIENCE_S))
        receiver = await stack.enter_async_context(Client(task.url_b, patience_s=PATIENCE_S))
        load._documents = await stack.enter_async_context(receiver.receive(USER, prefetch=8))
        return load

    _sender: Client
    _documents: Subscription[Document]

    async def send_portion(self) -> dict[str, Any]:
        """Send and receive one portion. Raises Incomplete."""
        began = time.perf_counter()
        count = max(round(self._task.per_s * self._task.seconds), 1)
        received, _ = await asyncio.gather(self._receive(count), self._send(count, began))
        if received != count * self._task.size:
            raise Incomplete(f"{received} of {count * self._task.size} bytes arrived.")
        return {"documents": count, "bytes": received, "seconds": round(time.perf_counter() - began, 3)}

    async def _send(self, count: int, began: float) -> None:
        if not self._task.per_s:
            await self._send_one(FileBody(Path(self._task.path)))
            return
        at = began
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                await asyncio.sleep(max(at - time.perf_counter(), 0))
                group.create_task(self._send_one(os.urandom(self._task.size)))
                # Random pauses: the rhythm differs from that of the small documents.
                at += self._pauses.expovariate(self._task.per_s)

    async def _send_one(self, body: bytes | FileBody) -> None:
        await self._sender.send(
            f"{self._task.target}/{USER}", body, app_key="bench/bulk/plain/0", encrypt=self._task.seal
        )

    async def _receive(self, count: int) -> int:
        size = 0
        for _ in range(count):
            document = await anext(self._documents)
            size += document.size
            await document.ack()
        return size


async def run(task: BulkTask) -> None:
    """Serve standard input until its end."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async with AsyncExitStack() as stack:
        load = await BulkLoad.connect(task, stack)
        print("ready", flush=True)
        while await reader.readline():
            print(json.dumps(await load.send_portion()), flush=True)


if __name__ == "__main__":
    uvloop.run(run(BulkTask(*json.loads(sys.argv[1]))))
