"""``python -m semq.folders --config FILE``: serves the folders of one node until a signal, or until the node ends.

One process serves a root: a lock on the root keeps a second one away.
"""

import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import structlog
from watchfiles import awatch

from semq.app import Client
from semq.clock import SystemClock
from semq.config.settings import Settings
from semq.folders.errors import FolderInUse, FolderUnusable
from semq.folders.incoming import Incoming
from semq.folders.layout import Layout
from semq.folders.outcomes import Outcomes
from semq.folders.outgoing import Outgoing
from semq.service import companion_process
from semq.service.companion_process import Job

log = structlog.get_logger("semq.folders")

LOCK = ".semq.lock"
PATIENCE_S = 60.0


def main(argv: list[str] | None = None) -> int:
    """Serve the folders of a configuration; return the exit status."""
    return companion_process.main("semq.folders", "Serve the folders of a local node.", serve, argv)


async def serve(settings: Settings, url: str, stopped: Job) -> None:
    """Serve all roots until ``stopped`` returns.

    Raises FolderInUse, FolderUnusable, LoginRefused, RefusedByNode.
    """
    with ExitStack() as locks:
        layouts = [Layout(folder.path, folder.domain) for folder in settings.folders]
        for layout in layouts:
            locks.enter_context(_locked(layout))
        async with Client(url, patience_s=PATIENCE_S) as client:
            served = list(zip(layouts, settings.folders, strict=True))
            jobs: list[Job] = [Outcomes([one for one, folder in served if folder.keep_sent], client).run]
            for layout, folder in served:
                if folder.send:
                    out = Outgoing(layout, folder, settings.protocol.max_document_bytes, client, SystemClock())
                    jobs.append(partial(out.run, _changes(layout.out)))
                if folder.receive:
                    jobs.append(Incoming(layout, folder.user, client).run)
            log.info("folders_served", roots=[str(layout.root) for layout in layouts])
            await companion_process.until(stopped, jobs)


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
