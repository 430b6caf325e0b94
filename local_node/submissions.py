"""Documents that applications wrote through SQL (tb_0031_submit, row B1): taken when they are committed there.

A NOTIFY wakes at once, a job looks every ten seconds; nothing depends on either. A row counts as accepted when it has
moved to tb_0031; one that cannot be accepted stays where it is, with its reason. One that cannot be accepted yet (a
rate, a quota) stays without: the rows to that target are passed over until the next poll, so that they hold up nobody
else's, and ``semq node status`` says why they wait.
"""

from collections.abc import Callable, Sequence

from semq.engine.core import Step
from semq.engine.errors import QuotaReached
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

    def __init__(self, engine: Callable[[], LocalEngine], again: Callable[[], None]) -> None:
        """``again`` is called where rows have to wait, and has to poll a second later."""
        self._engine = engine
        self._again = again
        self._under_way: set[int] = set()
        self.waiting: dict[str, str] = {}  #: why rows wait, by target, as the last poll has found
        self._put_off: dict[str, str] = {}  #: the same in this poll
        self._polling: LocalEngine | None = None

    def poll(self) -> None:
        """Look for new rows, unless a look is under way."""
        if self._polling is not self._engine():
            self.waiting, self._put_off = self._put_off, {}
            self._look()

    def _look(self) -> None:
        engine = self._polling = self._engine()
        engine.core.post(_Look(self, engine, tuple(sorted(self._put_off))))

    def found(self, engine: LocalEngine, rows: list[Submitted], full: bool) -> None:
        """Hand rows to the engine; refuse those that make no sense. ``full``: there may be more."""
        self._polling = None
        put_off = len(self._put_off)
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
        if (full and new) or len(self._put_off) > put_off:
            self._look()

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
            if isinstance(error, BadInput) and not isinstance(error, QuotaReached):
                self._engine().core.post(_Refuse({row.row_id: (error.code, error.text)}))
                return
            self._put_off[row.target] = str(error)
            self._again()

        return Submission(
            parse_address(row.target), attributes, row.payload, done, failed, token=row.token, row_id=row.row_id
        )


class _Look(Step):
    def __init__(self, submissions: SqlSubmissions, engine: LocalEngine, without: tuple[str, ...]) -> None:
        super().__init__()
        self._submissions = submissions
        self._engine = engine
        self._query = SubmittedRows(BATCH, without)
        self.needs.queries.add(self._query)

    def decide(self, unit: Unit) -> None:
        rows: Sequence[Submitted] = unit.found.get(self._query, ())
        self._is_full = len(rows) == BATCH
        # What work before this has taken in the same unit was still there when the unit was loaded.
        settled = unit.taken_submissions | unit.refused_submissions.keys()
        self._rows: list[Submitted] = [row for row in rows if row.row_id not in settled]

    def committed(self) -> None:
        self._submissions.found(self._engine, self._rows, self._is_full)

    def failed(self, error: Exception) -> None:
        self._submissions.failed()


class _Refuse(Step):
    def __init__(self, refused: dict[int, Reason]) -> None:
        super().__init__()
        self._refused = refused

    def decide(self, unit: Unit) -> None:
        unit.refused_submissions.update(self._refused)
