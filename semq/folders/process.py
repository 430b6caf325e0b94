"""``python -m semq.folders --config FILE``: serves the folders of one node until a signal, or until the node ends.

One process serves a root: a lock on the root keeps a second one away. Started by the node, it ends with the node,
because its standard input ends then.
"""

import argparse
import asyncio
import fcntl
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import structlog
from watchfiles import awatch

from semq.app import Client, NodeUnreachable
from semq.clock import Clock, SystemClock
from semq.config import load
from semq.config.reach import url_of
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.folders.errors import FolderInUse, FolderUnusable
from semq.folders.incoming import Incoming
from semq.folders.layout import Layout
from semq.folders.outcomes import Outcomes
from semq.folders.outgoing import Outgoing
from semq.service.log import set_up
from semq.service.process import EXIT_OK, exit_status

log = structlog.get_logger("semq.folders")
Job = Callable[[], Coroutine[Any, Any, None]]

NODE_VARIABLE = "SEMQ_NODE"  # the URL of the running node, if the port in the configuration is not the one in use
LOCK = ".semq.lock"
PATIENCE_S = 60.0
AGAIN_S = 1.0
WITH_PARENT = "--with-parent"


def main(argv: list[str] | None = None) -> int:
    """Serve the folders of a configuration; return the exit status."""
    parser = argparse.ArgumentParser(
        allow_abbrev=False, prog="semq.folders", description="Serve the folders of a local node."
    )
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the node's TOML file")
    parser.add_argument(WITH_PARENT, action="store_true", help="end when standard input ends")
    arguments = parser.parse_args(argv)
    try:
        environment = {name: value for name, value in os.environ.items() if name != NODE_VARIABLE}
        settings = load(arguments.config, environment)
        set_up(settings.log, f"{settings.node.umx_type}.{settings.node.id}")
        url = os.environ.get(NODE_VARIABLE) or url_of(settings)
        asyncio.run(serve(settings, url, SystemClock(), stop_of(arguments.with_parent)))
    except (SemqError, KeyboardInterrupt, OSError) as error:
        return exit_status(error, "semq.folders")
    return EXIT_OK


def stop_of(with_parent: bool) -> Job:
    """Return what waits for the end: a signal, or with a parent the end of standard input."""

    async def stopped() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if with_parent:
            loop.add_reader(0, lambda: stop.set() if not os.read(0, 1) else None)
        await stop.wait()

    return stopped


async def serve(settings: Settings, url: str, clock: Clock, stopped: Job) -> None:
    """Serve all roots until ``stopped`` returns.

    Raises FolderInUse, FolderUnusable, LoginRefused, RefusedByNode.
    """
    with ExitStack() as locks:
        layouts = [Layout(folder.path, folder.domain) for folder in settings.folders]
        for layout in layouts:
            locks.enter_context(_locked(layout))
        async with Client(url, patience_s=PATIENCE_S) as client:
            jobs: list[Job] = [Outcomes(layouts, client).run]
            for layout, folder in zip(layouts, settings.folders, strict=True):
                if folder.send:
                    out = Outgoing(layout, folder, settings.protocol.max_document_bytes, client, clock)
                    jobs.append(partial(out.run, _changes(layout.out)))
                if folder.receive:
                    jobs.append(Incoming(layout, folder.user, client).run)
            await _until(stopped, jobs, [str(layout.root) for layout in layouts])


async def _until(stopped: Job, jobs: list[Job], roots: list[str]) -> None:
    log.info("folders_served", roots=roots)
    ended = asyncio.ensure_future(stopped())
    tasks = [asyncio.ensure_future(_patiently(job)) for job in jobs]
    try:
        await asyncio.wait((ended, *tasks), return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in (ended, *tasks):
            task.cancel()
        await asyncio.gather(ended, *tasks, return_exceptions=True)


async def _patiently(job: Job) -> None:
    """Run a job again as long as the node is away."""
    while True:
        try:
            await job()
            return
        except NodeUnreachable as error:
            log.warning("node_away", error=str(error), again_in_s=AGAIN_S)
        await asyncio.sleep(AGAIN_S)


async def _changes(folder: Path) -> AsyncIterator[object]:
    async for changes in awatch(folder, debounce=200, step=20, recursive=True, ignore_permission_denied=True):
        yield changes


@contextmanager
def _locked(layout: Layout) -> Iterator[None]:
    """Hold a root for this process. Raises FolderInUse, FolderUnusable."""
    try:
        layout.make()
        lock = (layout.root / LOCK).open("a+")
    except OSError as error:
        raise FolderUnusable(path=str(layout.root), fault=error.strerror) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.seek(0)
            raise FolderInUse(path=str(layout.root), pid=lock.read(20)) from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield
