"""Documents that applications wrote through SQL (tb_0031_submit, row B1): taken when they are committed there.

A NOTIFY wakes early, a job looks every second; nothing depends on either. A row counts as accepted when it has moved to
tb_0031; one that cannot be accepted stays where it is, with its reason.
"""

from collections.abc import Callable

from semq.clock import Clock
from semq.engine.core import Step
from semq.engine.framing import check_carried
from semq.engine.local import LocalEngine
from semq.engine.ports import Submission
from semq.errors import BadInput, SemqError
from semq.store.rows import Reason, Submitted
from semq.store.unit import SubmittedRows, Unit
from semq.umx_t.address import parse_address
from semq.umx_t.headers import read_submission

BATCH = 500


class SqlSubmissions:
    """Moves rows of tb_0031_submit into the engine, a batch at a time."""

    def __init__(self, engine: Callable[[], LocalEngine], clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._under_way: set[int] = set()
        self._polling: LocalEngine | None = None

    def poll(self) -> None:
        """Look for new rows, unless a look is under way."""
        engine = self._engine()
        if self._polling is not engine:
            self._polling = engine
            engine.core.post(_Look(self, engine))

    def found(self, engine: LocalEngine, rows: list[Submitted]) -> None:
        """Hand rows to the engine; refuse those that make no sense."""
        self._polling = None
        new = [row for row in rows if row.row_id not in self._under_way]
        submissions, refused = [], {}
        for row in new:
            try:
                submissions.append(self._read(row))
            except SemqError as error:
                refused[row.row_id] = (error.code, str(error))
            except Exception as error:  # noqa: BLE001  # whatever it holds, a row must not stop those behind it
                unforeseen = BadInput("The row cannot be read.", fault=repr(error)[:200])
                refused[row.row_id] = (unforeseen.code, str(unforeseen))
        self._under_way.update(submission.row_id for submission in submissions)
        if refused:
            engine.core.post(_Refuse(refused))
        if submissions:
            engine.submit(submissions)
        if len(rows) == BATCH and new:
            self.poll()

    def failed(self) -> None:
        """The look came to nothing; the next poll looks again."""
        self._polling = None

    def _read(self, row: Submitted) -> Submission:
        headers = {
            **row.headers,
            "@SaveFwd": row.save_fwd,
            "@Ack2": row.ack2,
            "@AppKey": row.app_key,
            "@OrderKey": row.order_key or None,
        }
        attributes, _ = read_submission(headers, {"content_type": row.content_type})
        check_carried(attributes)

        def done(accepted: object) -> None:
            self._under_way.discard(row.row_id)

        def failed(error: Exception) -> None:
            self._under_way.discard(row.row_id)
            if isinstance(error, BadInput):
                self._engine().core.post(_Refuse({row.row_id: (error.code, error.text)}))

        return Submission(
            parse_address(row.target), attributes, row.payload, done, failed, token=row.token, row_id=row.row_id
        )


class _Look(Step):
    def __init__(self, submissions: SqlSubmissions, engine: LocalEngine) -> None:
        super().__init__()
        self._submissions = submissions
        self._engine = engine
        self._query = SubmittedRows(BATCH)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        self._rows: list[Submitted] = list(unit.found.get(self._query, ()))

    def committed(self) -> None:
        self._submissions.found(self._engine, self._rows)

    def failed(self, error: Exception) -> None:
        self._submissions.failed()


class _Refuse(Step):
    def __init__(self, refused: dict[int, Reason]) -> None:
        super().__init__()
        self._refused = refused

    def decide(self, unit: Unit) -> None:
        unit.refused_submissions.update(self._refused)
