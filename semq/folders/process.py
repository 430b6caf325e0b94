"""``python -m semq.folders --config FILE``: serve the folders of one node until a signal, or until the node ends."""

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import structlog
from watchfiles import awatch

from semq.app import Client, LoginRefused
from semq.clock import SystemClock
from semq.config.sections import FolderSection
from semq.config.settings import Settings
from semq.errors import SemqError
from semq.folders.errors import FolderInUse, FolderUnusable, RootReplaced
from semq.folders.incoming import Incoming
from semq.folders.layout import Layout
from semq.folders.outcomes import OUTCOMES, OutcomeWriter
from semq.folders.outgoing import Outgoing
from semq.folders.root_identity import known_file
from semq.foreign_text import shown
from semq.service.companion import sections as companion_sections
from semq.service.companion.process import AsyncAction
from semq.service.companion.section_states import SectionStates
from semq.service.companion.sections import PATIENCE_S, CompanionSection
from semq.store.files import make_folder

log = structlog.get_logger("semq.folders")

LOCK = ".semq.lock"
WATCH_S = 1.0  # between two checks that a root is the one that was locked
FATAL = (LoginRefused,)  # errors that concern all roots


def main(argv: list[str] | None = None) -> int:
    """Serve the folders of a configuration; return the exit status."""
    return companion_sections.main("semq.folders", "Serve the folders of a local node.", serve, argv)


async def serve(settings: Settings, url: str, wait_for_stop: AsyncAction, states: SectionStates) -> None:
    """Serve all roots until ``wait_for_stop`` returns. A root that cannot be served is tried again later.

    Raises LoginRefused; FolderInUse or FolderUnusable if no root can be served.
    """
    roots = [Root(settings, folder, states) for folder in settings.folders]
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # it logs each change
    with ExitStack() as exits:
        for root in roots:
            exits.callback(root.unlock)
        refused = [error for root in roots if (error := _lock_or_error(root)) is not None]
        refused = [error for error in refused if not isinstance(error, RootReplaced)]  # reported until it is mounted
        if refused and len(refused) == len(roots):
            raise refused[0]
        async with Client(url, patience_s=PATIENCE_S) as client:
            outcomes = OutcomeWriter([root.layout for root in roots if root.settings.keep_sent], client, states)
            sections = [CompanionSection(OUTCOMES, outcomes.run)]
            sections += [CompanionSection(root.name, partial(root.run, client)) for root in roots]
            log.info("folders_served", roots=[root.name for root in roots if root.is_locked])
            await companion_sections.run_until_stop(wait_for_stop, sections, states, FATAL)


def _lock_or_error(root: "Root") -> SemqError | None:
    """Lock a root; return the error instead of raising it."""
    try:
        root.lock()
    except (FolderInUse, FolderUnusable, RootReplaced) as error:
        return error
    return None


class Root:
    """The root folder of one [[folders]] table. Only one process serves it at a time."""

    def __init__(self, node: Settings, settings: FolderSection, states: SectionStates) -> None:
        self.settings = settings
        self.layout = Layout(settings.path, settings.domain, known_file(node.data_dir, settings.path))
        self.name = shown(str(settings.path))
        self.is_locked = False
        self._lock = ExitStack()
        self._document_max = node.largest_document_bytes
        self._states = states
        self._incoming: Incoming | None = None

    def lock(self) -> None:
        """Lock the root until ``unlock``. Raises FolderInUse, FolderUnusable, RootReplaced."""
        if not self.is_locked:
            self._lock.enter_context(_locked(self.layout))
            self.is_locked = True

    def unlock(self) -> None:
        self._lock.close()
        self.is_locked = False

    async def run(self, client: Client, on_success: Callable[[], None]) -> None:
        """Send and receive until cancelled. Raises FolderInUse, FolderUnusable, RootReplaced."""
        self.lock()
        on_success()
        sections = [CompanionSection(self.name, self._watch)]
        if self.settings.send:
            sections.append(CompanionSection(shown(str(self.layout.out)), partial(self._send, client)))
        if self.settings.receive:
            # Kept for the next run, because it knows which threads still write.
            self._incoming = self._incoming or Incoming(self.layout, self.settings.user, client, self._states)
            sections.append(CompanionSection(shown(str(self.layout.arrived)), self._incoming.run))
        await companion_sections.run_all(sections, self._states, (*FATAL, RootReplaced))

    async def _watch(self, on_success: Callable[[], None]) -> None:
        """Raise RootReplaced when another folder has the path of the root, which then is locked anew."""
        while True:
            fault = await asyncio.to_thread(self.layout.identity.fault)
            if fault is not None:
                self.unlock()
                raise fault
            await asyncio.sleep(WATCH_S)

    async def _send(self, client: Client, on_success: Callable[[], None]) -> None:
        outgoing = Outgoing(self.layout, self.settings, self._document_max, client, SystemClock(), self._states)
        on_success()
        await outgoing.run(_changes(self.layout.out))


async def _changes(folder: Path) -> AsyncIterator[object]:
    async for changes in awatch(folder, debounce=200, step=20, recursive=True, ignore_permission_denied=True):
        yield changes


@contextmanager
def _locked(layout: Layout) -> Iterator[None]:
    """Lock a root for this process. Raises FolderInUse, FolderUnusable, RootReplaced."""
    try:
        layout.identity.compare()
        make_folder(layout.root)
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
        try:
            layout.make()
        except OSError as error:
            raise FolderUnusable(path=error.filename or str(layout.root), fault=error.strerror) from error
        yield
