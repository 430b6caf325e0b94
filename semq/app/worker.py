"""The worker: runs an application's handlers in parallel, with retries, until it is stopped.

A document is acknowledged when its function has returned. If the function fails, it is called again after a pause,
during which other documents are processed. After the last attempt the document is parked at the node with error,
traceback and number of attempts.
"""

import asyncio
import inspect
import logging
import os
import socket
import traceback
from concurrent.futures import ThreadPoolExecutor

from semq.app.client import Client
from semq.app.document_tasks import park
from semq.app.errors import AlreadyGone
from semq.app.handlers import CannotRead, GiveUp, Handler, Handlers, NoHandler
from semq.app.values import Document
from semq.errors import SemqError

log = logging.getLogger(__name__)

TRACEBACK_MAX = 6000  # characters at the end of a traceback that are kept
DESCRIPTION_MAX = 6000  # characters of the error's own text that are kept
DOUBLINGS_MAX = 32  # of a pause: more exceed any sensible `backoff_s_max`, and in the end the largest float
FINAL_ERRORS = (CannotRead, GiveUp, NoHandler)  # another attempt would fail in the same way


def worker_tag() -> str:
    """Return the consumer tag: host and process id."""
    return f"{socket.gethostname()}.{os.getpid()}"


class Worker:
    """The worker of one process. At most ``concurrency`` functions run at the same time; prefetch is twice that.

    ``user``: the user whose inbox is read; empty: the institution itself.
    """

    def __init__(self, client: Client, handlers: Handlers, *, concurrency: int = 4, user: str = "") -> None:
        self._client = client
        self._handlers = handlers
        self._user = user
        self._prefetch = 2 * concurrency
        self._free = asyncio.Semaphore(concurrency)
        self._threads = ThreadPoolExecutor(concurrency, "handler")
        self._stop = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self.tag = worker_tag()
        self.done = 0  #: documents that were processed and acknowledged
        self.failed = 0  #: documents that were parked

    def stop(self) -> None:
        """Take no more documents; ``run`` ends when the running functions have ended."""
        self._stop.set()

    async def run(self, grace_s: float = 30.0) -> None:
        """Work until ``stop``, then wait up to ``grace_s`` for running functions; other documents return to the queue.

        Raises NodeUnreachable, LoginRefused, RefusedByNode.
        """
        async with self._client.receive(self._user, prefetch=self._prefetch, consumer_tag=self.tag) as documents:
            stopped = asyncio.create_task(self._stop.wait())
            try:
                while not self._stop.is_set():
                    next_document = asyncio.ensure_future(anext(documents))
                    await asyncio.wait((next_document, stopped), return_when=asyncio.FIRST_COMPLETED)
                    if not next_document.done():
                        next_document.cancel()
                        await asyncio.gather(next_document, return_exceptions=True)
                        break
                    self._begin(next_document.result())
            finally:
                stopped.cancel()
                await self._end_tasks(grace_s)

    def _begin(self, document: Document) -> None:
        task = asyncio.get_running_loop().create_task(self._work(document))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _end_tasks(self, grace_s: float) -> None:
        if self._running:
            await asyncio.wait(self._running, timeout=grace_s)
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._threads.shutdown(wait=False, cancel_futures=True)

    # One document.

    async def _work(self, document: Document) -> None:
        try:
            if await self._process(document):
                await document.ack()
                self.done += 1
        except AlreadyGone:
            log.warning("%s: the connection ended during processing; the document is delivered again", document.lk0)
        except SemqError as error:
            log.error("%s: cannot be settled now, the document is delivered again: %s", document.lk0, error)

    async def _process(self, document: Document) -> bool:
        """Return True when an attempt succeeds; False if the document is parked or requeued."""
        attempt = 0
        while True:
            attempt += 1
            handler: Handler | None = None
            try:
                handler = self._handlers.find(document.app_key)
                if await self._call(handler, document):
                    return True
                break
            except (Exception, asyncio.CancelledError) as error:  # a handler may raise anything
                if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                    raise
                log.warning("%s: attempt %d failed: %s", document.lk0, attempt, describe(error))
                if handler is None or isinstance(error, FINAL_ERRORS) or attempt > handler.retries:
                    await self._park(document, attempt, error)
                    return False
            pause_s = min(handler.backoff_s * 2 ** min(attempt - 1, DOUBLINGS_MAX), handler.backoff_s_max)
            try:
                async with asyncio.timeout(pause_s):
                    await self._stop.wait()
            except TimeoutError:
                continue
            break
        await document.requeue()  # stopping: another worker processes the document
        return False

    async def _call(self, handler: Handler, document: Document) -> bool:
        """Call a function as soon as fewer than ``concurrency`` run; return False if the worker is stopping."""
        await self._free.acquire()
        thread: asyncio.Future[object] | None = None
        try:
            if self._stop.is_set():
                return False
            body = self._handlers.read(document)
            async with asyncio.timeout(handler.time_limit_s):
                if inspect.iscoroutinefunction(handler.function):
                    await handler.function(document, body)
                    return True
                thread = asyncio.get_running_loop().run_in_executor(self._threads, handler.function, document, body)
                answer = await asyncio.shield(thread)
            if inspect.isawaitable(answer):
                async with asyncio.timeout(handler.time_limit_s):
                    await answer
            return True
        finally:
            # A thread cannot be stopped from outside: after the time limit it counts as running until it returns.
            if thread is None or thread.done():
                self._free.release()
            else:
                thread.add_done_callback(lambda _: self._free.release())

    async def _park(self, document: Document, attempts: int, error: BaseException) -> None:
        """Park a document with the error, or without it if the node cannot store the error."""
        await park(self._client, document, report(error, attempts, document.deliveries, self.tag))
        self.failed += 1


def _is_cancelled() -> bool:
    """Return whether the worker cancels this task; otherwise a handler has raised CancelledError itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def describe(error: BaseException) -> str:
    """Return the class and the text of an exception."""
    if isinstance(error, TimeoutError):
        return "TimeoutError: the time limit has passed"
    try:
        text = str(error)
    except Exception as fault:  # noqa: BLE001 - an application's exception may fail in its own __str__
        text = f"no text, because of {type(fault).__name__}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def report(error: BaseException, attempts: int, deliveries: int, tag: str) -> str:
    """Return error, attempts, deliveries and worker, then the end of the traceback, as text that a node can store."""
    trace = "".join(traceback.format_exception(error))[-TRACEBACK_MAX:]
    description = describe(error)[:DESCRIPTION_MAX]
    text = f"{description} (attempts {attempts}, deliveries {deliveries}, by {tag})\n{trace}"
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
