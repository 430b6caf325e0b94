"""Documents that applications finished or parked in their own transactions, by numbers in tb_0030_done.

``semq_done`` writes a number, ``semq_park`` a number and a reason. A NOTIFY reaches the node immediately, and a job
polls every ten seconds. A number without a reason ends its row of tb_0030 as the ack of an AMQP consumer would; a
number with a reason parks the row. The same commit deletes the number. A number without a row is only deleted. Used by
``local_engine``.
"""

from functools import partial

from semq.engine.core import Core
from semq.engine.receiver.answers import ApplicationAnswer, ApplicationAnswers
from semq.store.unit import DoneRows, Needs
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.grids import HandlingEvent
from semq.umx_t.status import AppStatus

BATCH = 500


class Completions:
    """Reads the numbers and ends their documents, one batch at a time."""

    def __init__(self, core: Core, answers: ApplicationAnswers) -> None:
        self._core = core
        self._answers = answers
        self._is_busy = False
        self._must_read_again = False  #: after the batch under way

    def poll(self) -> None:
        """Read numbers. If a batch is under way, read again after it, because it may lack the latest numbers."""
        if self._is_busy:
            self._must_read_again = True
            return
        self._is_busy, self._must_read_again = True, False
        self._core.post(self._read(), failed=lambda error: self._ended(0))

    def _ended(self, found: int) -> None:
        """End a batch. Read the next one if this batch was full, or if ``poll`` was called meanwhile."""
        self._is_busy = False
        if found == BATCH or self._must_read_again:
            self.poll()

    @work
    def _read(self) -> Steps:
        query = DoneRows(BATCH)
        unit = yield Needs(queries={query})
        found: list[tuple[int, str | None]] = list(unit.found.get(query, ()))
        yield COMMITTED
        if not found:
            self._ended(0)
            return
        for bref, why in found:
            if why is not None:  # only a row in state NEW: an operator may have parked the row before
                parked = ApplicationAnswer([bref], HandlingEvent.fail, why, AppStatus.NEW)
                self._core.post(self._complete(parked), failed=partial(self._answers.not_committed, parked))
        done = ApplicationAnswer([bref for bref, why in found if why is None], HandlingEvent.done)
        # The piece of work posted last ends the batch, after all others.
        self._core.post(self._complete(done, len(found)), failed=lambda error: self._not_completed(done, error))

    def _not_completed(self, done: ApplicationAnswer, error: Exception) -> None:
        self._answers.not_committed(done, error)
        self._ended(0)

    @work
    def _complete(self, answer: ApplicationAnswer, found: int | None = None) -> Steps:
        """Handle documents, and delete their numbers. ``found``: size of the batch, for the work that ends the batch;
        otherwise None."""
        unit = yield Needs(pending=set(answer.brefs))
        changes = self._answers.change_rows(unit, answer)
        unit.taken_done.update(answer.brefs)
        yield COMMITTED
        changes.apply()
        if found is not None:
            self._ended(found)
