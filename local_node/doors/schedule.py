"""The clock of scheduled documents (@NotBefore): reads the store when the next one is due.

A read returns the documents that are due, at most ``DUE_MAX``, and the time of the next one, both by an index; so its
cost does not grow with the number of waiting ones. ``sql_submissions`` submits the released documents.
"""

from collections.abc import Callable

from semq.engine.local_engine import LocalEngine
from semq.engine.sender.scheduling import DUE_MAX, release_due, release_early

POLL_S = 10.0  # between two reads without a known time: finds documents scheduled by plain SQL


class ScheduledDocuments:
    """Releases scheduled documents at their time."""

    def __init__(
        self, engine: Callable[[], LocalEngine], again: Callable[[float], None], released: Callable[[], None]
    ) -> None:
        """``again(seconds)`` has to call ``release_due`` after that time; ``released`` is called when documents were
        released.
        """
        self._engine = engine
        self._again = again
        self._released = released
        self._reading: LocalEngine | None = None
        self._new = 0  #: the earliest time that was scheduled during a read
        self._next = 0  #: the time of the next document, in milliseconds since 1970; 0 if none is known

    def release_due(self) -> None:
        """Release due documents, unless a read is under way."""
        engine = self._engine()
        if self._reading is not engine:
            self._reading = engine
            engine.core.post(release_due(engine.core, self._found), failed=lambda error: self._failed())

    def scheduled(self, at: int) -> None:
        """Note that a document was scheduled for this time."""
        if self._reading is self._engine():
            self._new = min(self._new or at, at)
        elif not self._next or at < self._next:
            self._wait_for(at)

    def release(self, number: int, done: Callable[[], None], failed: Callable[[Exception], None]) -> None:
        """Release one document before its time. NotThere if it is not scheduled (any more)."""

        def ended() -> None:
            self._released()
            done()

        core = self._engine().core
        core.post(release_early(number, ended), failed=failed)

    def _found(self, released: int, next_at: int) -> None:
        self._reading = None
        next_at, self._new = min(filter(None, (next_at, self._new)), default=0), 0
        if released:
            self._released()
        if released == DUE_MAX:
            self.release_due()
        self._next = 0
        if next_at:
            self._wait_for(next_at)

    def _failed(self) -> None:
        self._reading = None

    def _wait_for(self, at: int) -> None:
        wait_s = (at - self._engine().core.now_ms()) / 1000
        self._next = at
        if wait_s < POLL_S:
            self._again(max(wait_s, 0.0))
