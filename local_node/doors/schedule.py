"""The release of scheduled documents (@NotBefore), which ``sql_submissions`` then submits.

The store is read when the next document is due, and by a job, which finds documents scheduled by SQL. A read uses an
index: its cost does not grow with the number of scheduled documents. If many are due at once, they are released in
turns, each when the documents of the one before have been submitted, so that other submissions are read in between.
"""

from collections.abc import Callable

from semq.engine.local_engine import LocalEngine
from semq.engine.sender.scheduling import DUE_MAX, release_due, release_early
from semq.service.engine_handle import EngineHandle

POLL_S = 10.0  # interval of the job that reads; a virtual server multiplies it (``NodeHost.poll_factor``)


class ScheduledDocuments:
    """Releases scheduled documents at their time."""

    def __init__(
        self,
        engine: EngineHandle[LocalEngine],
        release_in: Callable[[float], None],
        submit: Callable[[Callable[[], None]], None],
        poll_s: float = POLL_S,
    ) -> None:
        """``release_in(seconds)`` has to plan a call of ``release_due`` after that time, in place of an earlier plan.

        The caller also calls ``release_due`` every ``poll_s`` seconds. ``submit(then)`` has to submit released
        documents and to call ``then`` when they are submitted or wait.
        """
        self._engine = engine
        self._release_in = release_in
        self._submit = submit
        self._poll_s = poll_s
        self._read_at: float | None = None  #: monotonic time of the last read
        self._reading_engine: LocalEngine | None = None  #: the engine whose read is under way
        self._submitting_engine: LocalEngine | None = None  #: the engine that submits the documents of a full turn
        # In milliseconds since 1970; 0: none.
        self._scheduled_meanwhile = 0  #: the earliest time that was scheduled during a read
        self._next_at = 0  #: the time of the next document

    def release_due(self) -> None:
        """Release due documents, unless a read is under way, or the documents of a full turn are being submitted."""
        engine = self._engine.current
        if engine not in (self._reading_engine, self._submitting_engine):
            self._reading_engine = engine
            self._read_at = engine.core.now()
            engine.core.post(release_due(engine.core, self._note_released), failed=lambda error: self._failed())

    def note_scheduled(self, at: int) -> None:
        if self._reading_engine is self._engine.current:
            self._scheduled_meanwhile = min(self._scheduled_meanwhile or at, at)
        elif not self._next_at or at < self._next_at:
            self._wait_for(at)

    def release(self, number: int, done: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Release one document before its time. ``failed`` gets NotThere if it is not scheduled (any more)."""

        def ended() -> None:
            self._submit(lambda: None)
            done()

        core = self._engine.current.core
        core.post(release_early(number, ended), failed=failed)

    def _note_released(self, released: int, next_at: int) -> None:
        self._reading_engine = None
        next_at = min(filter(None, (next_at, self._scheduled_meanwhile)), default=0)
        self._scheduled_meanwhile = 0
        if released == DUE_MAX:
            self._submitting_engine = self._engine.current
            self._submit(self._end_turn)
        elif released:
            self._submit(lambda: None)
        self._next_at = 0
        if next_at:
            self._wait_for(next_at)

    def _end_turn(self) -> None:
        self._submitting_engine = None
        self.release_due()

    def _failed(self) -> None:
        self._reading_engine = None

    def _wait_for(self, at: int) -> None:
        core = self._engine.current.core
        wait_s = (at - core.now_ms()) / 1000
        self._next_at = at
        # A later time needs no plan: the job's next read finds it, and a plan would postpone that read.
        since_read_s = core.now() - self._read_at if self._read_at is not None else 0.0
        if wait_s < self._poll_s - since_read_s:
            self._release_in(max(wait_s, 0.0))
