"""Documents that applications wrote through SQL (tb_0031_submit, row B1): taken when they are committed there.

A NOTIFY wakes at once, a job looks every ten seconds; nothing depends on either. A row counts as accepted when it has
moved to tb_0031. One that cannot be accepted stays where it is and is told like any other failure: an event ``failed``,
a line of the ledger under a locator of its own, a place in ``semq failed list`` (``refused_submissions``). One that
cannot be accepted yet (a rate, a quota, a key) stays without: the rows to that target are passed over until the next
poll, so that they hold up nobody else's, and tb_0031_wait says why.
"""

from collections.abc import Callable, Sequence
from typing import Any

import structlog

from local_node.doors.refused_submissions import Refuse
from semq.engine.core import Step
from semq.engine.errors import DocumentTooLarge
from semq.engine.frames import check_carried
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Submission
from semq.errors import BadInput, SemqError, Unavailable
from semq.store.rows import Reason, Submitted
from semq.store.unit import SubmittedRows, Unit
from semq.umx_t.address import parse_address
from semq.umx_t.headers import read_submission

BATCH = 500
log = structlog.get_logger("semq.sql")


class SqlSubmissions:
    """Moves rows of tb_0031_submit into the engine, a batch at a time."""

    def __init__(self, engine: Callable[[], LocalEngine], again: Callable[[], None]) -> None:
        """``again`` is called where rows have to wait, once a poll, and has to poll a second later."""
        self._engine = engine
        self._again = again
        self._under_way: set[int] = set()
        self.waiting: dict[str, SemqError] = {}  #: why rows wait, by target, as the last poll has found
        self._put_off: dict[str, SemqError] = {}  #: the same in this poll
        self._told: dict[str, Reason] | None = None  #: what tb_0031_wait says; None: not known
        self._polling: LocalEngine | None = None
        self._behind = False  #: rows went through while a look was under way

    def poll(self) -> None:
        """Look for new rows, unless a look is under way."""
        if self._polling is not self._engine():
            self.waiting, self._put_off = self._put_off, {}
            self._tell_waiting()
            self._look()
        elif self._put_off:
            self._again()

    def _look(self) -> None:
        self._behind = False
        engine = self._polling = self._engine()
        engine.core.post(_Look(self, engine, tuple(sorted(self._put_off))))

    def found(self, engine: LocalEngine, rows: list[Submitted]) -> None:
        """Hand rows to the engine; refuse those that make no sense. Another look follows when all are through."""
        self._polling = None
        new = [row for row in rows if row.row_id not in self._under_way]
        self._under_way.update(row.row_id for row in new)
        submissions: list[Submission] = []
        for row in new:
            try:
                submissions.append(self._read(row))
            except SemqError as error:
                self._refuse(row, error)
            except Exception as error:  # noqa: BLE001  # whatever it holds, a row must not stop those behind it
                self._refuse(row, BadInput("The row cannot be read.", fault=repr(error)[:200]))
        if submissions:
            engine.submit(submissions)
        if self._behind and not new:
            self._look()

    def failed(self) -> None:
        """The look came to nothing; the next poll looks again."""
        self._polling = None

    def _through(self, row: Submitted) -> None:
        """A row is taken, refused or put off. After the last one, look for more: a look is bounded."""
        self._under_way.discard(row.row_id)
        if self._under_way:
            return
        if self._polling is self._engine():
            self._behind = True  # the look under way may have seen only these rows
        else:
            self._look()

    def _wait(self, row: Submitted, error: Exception) -> None:
        """Pass over the rows to this target until the next poll, which comes soon."""
        if not self._put_off:
            self._again()
        self._put_off[row.target] = error if isinstance(error, SemqError) else Unavailable(fault=repr(error)[:200])
        self._through(row)

    def _refuse(self, row: Submitted, error: SemqError) -> None:
        """Refuse a row; until that is committed, looks still find it."""
        log.warning("submission_refused", number=row.row_id, target=row.target, app_key=row.app_key, error=str(error))
        core = self._engine().core
        core.post(Refuse(core, row, error, lambda: self._through(row), lambda fault: self._wait(row, fault)))

    def _read(self, row: Submitted) -> Submission:
        settings = self._engine().core.settings
        if row.size > settings.max_document:  # its payload was not read
            raise DocumentTooLarge(size=row.size, allowed=settings.max_document)
        headers = {
            **row.headers,
            "@SaveFwd": row.save_fwd,
            "@Ack2": row.ack2,
            "@AppKey": row.app_key,
            "@OrderKey": row.order_key or None,
        }
        properties = {
            "content_type": row.content_type,
            "content_encoding": row.content_encoding,
            "priority": row.priority,
        }
        attributes, token = read_submission(headers, properties)
        check_carried(attributes)

        def done(accepted: object) -> None:
            self._through(row)

        def failed(error: Exception) -> None:
            if isinstance(error, BadInput):
                self._refuse(row, error)
            else:
                self._wait(row, error)

        return Submission(
            parse_address(row.target), attributes, row.payload, done, failed, token=row.token or token,
            row_id=row.row_id,
        )  # fmt: skip

    def _tell_waiting(self) -> None:
        """Write down why rows wait, where that has changed, for ``semq_status`` and for people."""
        now = {target: (error.code, error.text) for target, error in sorted(self.waiting.items())}
        if now == self._told:
            return
        for target in now.keys() - (self._told or {}).keys():
            log.warning("submissions_wait", target=target, error=self.waiting[target].advice())
        self._told = now
        self._engine().core.post(_Waits(self, now))

    def not_told(self) -> None:
        """What tb_0031_wait says is not known; the next poll writes it again."""
        self._told = None


class _Look(Step):
    def __init__(self, submissions: SqlSubmissions, engine: LocalEngine, without: tuple[str, ...]) -> None:
        super().__init__()
        self._submissions = submissions
        self._engine = engine
        self._query = SubmittedRows(BATCH, without, engine.core.settings.max_document)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        rows: Sequence[Submitted] = unit.found.get(self._query, ())
        # What work before this has taken in the same unit was still there when the unit was loaded.
        settled = {*unit.taken_submissions, *unit.refused_submissions, *unit.removed_submissions}
        self._rows: list[Submitted] = [row for row in rows if row.row_id not in settled]

    def committed(self) -> None:
        self._submissions.found(self._engine, self._rows)

    def failed(self, error: Exception) -> None:
        self._submissions.failed()


class _Waits(Step):
    def __init__(self, submissions: SqlSubmissions, waits: dict[str, Reason]) -> None:
        super().__init__()
        self._submissions = submissions
        self._waits = waits

    def decide(self, unit: Unit) -> None:
        unit.submissions_wait = self._waits

    def failed(self, error: Any) -> None:
        self._submissions.not_told()
