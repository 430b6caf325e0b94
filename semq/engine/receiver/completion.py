"""Documents that applications finished or parked in their own transactions, by row number in tb_0030_done.

A number without a reason (``semq_done``) ends its row of tb_0030, as the ack of an AMQP consumer does. A number with a
reason (``semq_park``) parks the row. The same commit deletes the number.
"""

from functools import partial

from semq.engine.core import Core
from semq.engine.receiver.answers import ApplicationAnswer, ApplicationAnswers
from semq.store.unit import DoneRows, Needs
from semq.store.work import COMMITTED, Steps, after_commit, work
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
        self._has_failed = False  #: numbers of the batch stay in the table, so that the next batch begins with them

    def poll(self) -> None:
        """Read the numbers; if a batch is under way, read again after it."""
        if self._is_busy:
            self._must_read_again = True
            return
        self._is_busy, self._must_read_again, self._has_failed = True, False, False
        self._core.post(self._read(), failed=lambda error: self._ended())

    def _ended(self, *, is_full: bool = False) -> None:
        self._is_busy = False
        if not self._has_failed and (is_full or self._must_read_again):
            self.poll()

    def _not_completed(self, answer: ApplicationAnswer, error: Exception) -> None:
        self._has_failed = True
        self._answers.not_committed(answer, error)

    @work
    def _read(self) -> Steps:
        query = DoneRows(BATCH)
        unit = yield Needs(queries={query})
        found: list[tuple[int, str | None]] = list(unit.found.get(query, ()))
        yield COMMITTED
        if not found:
            self._ended()
            return
        for bref, why in found:
            if why is not None:  # only a row in state NEW: an operator may have parked the row before
                parked = ApplicationAnswer([bref], HandlingEvent.fail, why, AppStatus.NEW)
                self._core.post(self._complete(parked), failed=partial(self._not_completed, parked))
        done = [bref for bref, why in found if why is None]
        if done:
            self._core.post_each(
                done,
                lambda brefs: self._complete(ApplicationAnswer(brefs, HandlingEvent.done)),
                lambda brefs, error: self._not_completed(ApplicationAnswer(brefs, HandlingEvent.done), error),
            )
        # This is posted after all others, and so ends the batch.
        is_full = len(found) == BATCH
        self._core.post(after_commit(partial(self._ended, is_full=is_full)), failed=lambda error: self._ended())

    @work
    def _complete(self, answer: ApplicationAnswer) -> Steps:
        """Change the rows of an answer, and delete their numbers."""
        unit = yield Needs(pending=set(answer.brefs))
        changes = self._answers.change_rows(unit, answer)
        unit.taken_done.update(answer.brefs)
        yield COMMITTED
        changes.apply()
