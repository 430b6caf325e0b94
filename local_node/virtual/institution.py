"""One institution of a virtual server: its node, and the task that keeps it running."""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import structlog
from msgspec.structs import replace as replace_fields

from local_node.node import LocalNode
from local_node.virtual.shared import SharedHost
from semq.answers import OperationAnswer
from semq.clock import Clock
from semq.config import load
from semq.errors import SemqError
from semq.moments import utc_text
from semq.store.postgres.errors import StoreUnavailable
from semq.umx_t.retry import backoff

RETRY_S_MIN, RETRY_S_MAX = 1.0, 60.0
START_S = 60.0  # after this time a start no longer counts against the limit of parallel starts (``starts``)
STOP_S = 60.0
STARTING, SERVING, FAILING, ENDED = "starting", "serving", "failing", "ended"
log = structlog.get_logger("semq.institution")


class HostedFacts(OperationAnswer, frozen=True, kw_only=True):
    """The state of an institution's node."""

    institution: str
    state: str
    since: str
    error: str
    link: str = "down"
    waiting: int = 0
    connections: int = 0
    memory_bytes: int = 0
    memory_max_bytes: int = 0
    database: str = "closed"


class HostedInstitution:
    """One institution: a task starts its node, starts it again after a failure, and stops it."""

    def __init__(
        self, name: str, file: Path, env: Mapping[str, str], clock: Clock, host: SharedHost, starts: asyncio.Semaphore
    ) -> None:
        self.name = name
        self.state = STARTING
        self.error = ""
        self.since: datetime = clock.wall()
        self.node: LocalNode | None = None
        #: set when the first start has ended, or takes longer than START_S
        self.has_tried = asyncio.Event()
        self._file = file
        self._env = env
        self._clock = clock
        self._host = host
        self._starts = starts
        self._is_ending = False
        self._end_requested = asyncio.Event()  #: set to end the node, or the pause, immediately
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"institution {name}")

    async def end(self) -> None:
        self._is_ending = True
        self._end_requested.set()
        await self._task

    def restart(self) -> None:
        """Stop the node, read the file again, and start the node at once."""
        self._end_requested.set()

    async def _run(self) -> None:
        failures = 0
        while not self._is_ending:
            self._end_requested.clear()
            self._set_state(STARTING)
            try:
                await self._run_once()
                failures = 0
            except Exception as error:  # a defect of one node must not end the others
                failures += 1
                self._failed(error)
                if not isinstance(error, SemqError | OSError):
                    log.exception("institution_failed", institution=self.name)
            self.has_tried.set()
            if failures and not self._is_ending:
                pause_s = backoff(failures, RETRY_S_MIN, RETRY_S_MAX, self._clock.random())
                try:
                    async with asyncio.timeout(pause_s):
                        await self._end_requested.wait()
                except TimeoutError:
                    pass  # the pause is over
        self._set_state(ENDED)

    async def _run_once(self) -> None:
        """Run the node until an end or a restart is requested, or an error is raised."""
        node, requested = None, asyncio.ensure_future(self._end_requested.wait())
        try:
            async with self._starts:
                settings = await asyncio.to_thread(load, self._file, self._env, self.name)
                node = LocalNode(settings, self._clock, self._host)
                starting = asyncio.ensure_future(node.start())
                await asyncio.wait((starting, requested), timeout=START_S, return_when=asyncio.FIRST_COMPLETED)
            self.has_tried.set()
            await asyncio.wait((starting, requested), return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
                return
            starting.result()
            self.node = node
            self._set_state(SERVING)
            log.info("institution_serves", institution=self.name)
            failed = asyncio.ensure_future(node.wait_failed())
            await asyncio.wait((failed, requested), return_when=asyncio.FIRST_COMPLETED)
            if failed.done():
                failed.result()
            failed.cancel()
        finally:
            requested.cancel()
            self.node = None
            if node is not None:
                await self._stop_node(node)

    async def _stop_node(self, node: LocalNode) -> None:
        """Stop a node; abandon it if that takes too long."""
        try:
            async with asyncio.timeout(STOP_S):
                await node.stop()
        except (TimeoutError, SemqError, OSError) as error:
            log.warning("institution_not_stopped_in_order", institution=self.name, error=repr(error))

    def _failed(self, error: Exception) -> None:
        self._set_state(FAILING)
        self.error = error.advice() if isinstance(error, SemqError) else repr(error)
        log.error("institution_fails", institution=self.name, error=self.error)

    def _set_state(self, state: str) -> None:
        if state != self.state:
            self.state, self.since = state, self._clock.wall()
        if state == SERVING:
            self.error = ""

    @property
    def present_state(self) -> str:
        """The state; ``failing`` also while the database of a node that serves is away."""
        return FAILING if self.state == SERVING and self._is_database_away else self.state

    @property
    def _is_database_away(self) -> bool:
        return self.node is not None and self.node.store.state == "lost"

    def facts(self) -> HostedFacts:
        """Return state, link, backlog and memory, without a query of the database."""
        node = self.node
        state = HostedFacts(
            institution=self.name, state=self.present_state, since=utc_text(self.since), error=self.error
        )
        if node is None:
            return state
        limits = node.server.limits
        fault = str(StoreUnavailable()) if self._is_database_away else ""
        hub = node.parts.hub.status()
        return replace_fields(
            state,
            error=self.error or fault or (hub.last_error or "" if hub is not None and not hub.is_up else ""),
            link=hub.link if hub is not None else "none",
            waiting=sum(node.engine.rows.unsettled.values()),
            connections=len(node.server.sessions),
            memory_bytes=node.server.memory.bytes + node.server.journal.pending_bytes,
            memory_max_bytes=limits.memory_high,
            database=node.store.state,
        )
