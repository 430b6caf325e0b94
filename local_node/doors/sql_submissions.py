"""Documents that applications submit through SQL (tb_0031_submit): accepted after their transaction is committed.

A NOTIFY or a job starts a read. An accepted row leaves the table, a refused one stays (``refused_submissions``).

A row that cannot be accepted yet (because of a rate, a quota or a missing key) stays with the reason. Further rows to
the target are passed over until the next poll that finds no read under way, so that they do not delay rows to other
targets. Rows of the same sequence (order key and institution) wait behind it, however their targets are written.
tb_0031_wait names the first waiting row of each target.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial

import structlog
from msgspec import Struct
from msgspec.structs import fields

from local_node.doors.refused_submissions import refuse, withdraw
from semq.engine.errors import DocumentTooLarge, NotThere
from semq.engine.frames import check_carried, split_given
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Accepted, Submission
from semq.engine.sender.positions import HeldSequences
from semq.engine.sender.scheduling import envelope_of
from semq.errors import BadInput, SemqError, semq_error
from semq.foreign_text import shortened
from semq.service.engine_handle import EngineHandle
from semq.store.rows import Reason, Submitted, TargetWait
from semq.store.unit import Needs, SubmittedRows
from semq.store.work import COMMITTED, NO_NEEDS, Steps, work
from semq.umx_t.address import parse_address
from semq.umx_t.attributes import ARGUMENTS, PROPERTIES, submission_headers
from semq.umx_t.envelope import Attributes
from semq.umx_t.errors import BadAttribute, HeadersTooLarge
from semq.umx_t.headers import USER_HEADERS_MAX, NodeRequests, read_submission
from semq.umx_t.locator import LK0

BATCH = 500
HEADERS_JSON_MAX = 4 * USER_HEADERS_MAX  # headers that are longer as JSON are not read; ``semq_send`` refuses them, too
_COLUMNS = [
    field.name for field in fields(Submitted) if field.name in ARGUMENTS and ARGUMENTS[field.name].is_of_document
]
log = structlog.get_logger("semq.sql")


class SubmissionResult(Struct, frozen=True):
    """The present state of a submission."""

    state: str  #: accepted, refused, waits; submitted: not read yet
    lk0: str = ""  #: of the document or of the refusal
    reason: Reason | None = None  #: of the refusal or of the wait


class SqlSubmissions:
    """Reads rows of tb_0031_submit in batches, submits them to the engine, and notes the results."""

    def __init__(self, engine: EngineHandle[LocalEngine], poll_again: Callable[[], None]) -> None:
        """``poll_again``: called when rows wait; must arrange a call of ``poll`` a second later."""
        self._engine = engine
        self._poll_again = poll_again
        self._under_way: set[int] = set()
        self._being_withdrawn: set[int] = set()  #: reads skip these rows
        self._listeners: dict[int, list[Callable[[SubmissionResult], None]]] = {}  #: by number of the submission
        self.waiting: dict[str, SemqError] = {}  #: the reason why rows wait, by target
        self._targets_put_off: dict[str, tuple[int, SemqError]] = {}  #: by target: the first row that waits, and why
        self._held = HeldSequences()  #: of rows that wait
        self._stored_waits: dict[str, TargetWait] | None = None  #: the content of tb_0031_wait; None: not known
        self._reading_engine: LocalEngine | None = None  #: the engine whose read is under way
        self._must_read_again = False  #: whether another read must follow
        self._after_next_read: list[Callable[[], None]] = []  #: calls for which a read has to begin
        self._after_read: list[Callable[[], None]] = []  #: calls of the read under way

    def poll(self) -> None:
        """Read new rows. A read under way is repeated: it may miss the newest rows."""
        if self._reading_engine is not self._engine.current:
            self._targets_put_off = {}
            self._held.keep(self._under_way)
            self._begin_read()
            return
        self._must_read_again = True
        if self._targets_put_off:
            self._poll_again()

    def poll_then(self, then: Callable[[], None]) -> None:
        """Read new rows, and call ``then`` when all rows of a read that began after this call are settled."""
        self._after_next_read.append(then)
        self.poll()

    def listen(self, number: int, report: Callable[[SubmissionResult], None]) -> None:
        """Call ``report`` once with the result of the next read of the submission."""
        self._listeners.setdefault(number, []).append(report)

    def cancel_listening(self, number: int, report: Callable[[SubmissionResult], None]) -> None:
        listeners = self._listeners.get(number, [])
        if report in listeners:
            listeners.remove(report)
        if not listeners:
            self._listeners.pop(number, None)

    def withdraw(self, number: int, why: str, done: Callable[[LK0], None], failed: Callable[[Exception], None]) -> None:
        """Withdraw a waiting submission. If it is being accepted, first wait for the result.

        ``failed`` gets NotThere if no submission of this number waits.
        """

        def report(result: SubmissionResult) -> None:
            if result.state == "accepted":
                failed(NotThere(number=number, lk0=result.lk0))
            else:
                self.withdraw(number, why, done, failed)

        def withdrawn(lk0: LK0) -> None:
            self._being_withdrawn.discard(number)
            done(lk0)

        def not_withdrawn(error: Exception) -> None:
            self._being_withdrawn.discard(number)
            failed(error)

        if number in self._under_way:
            self.listen(number, report)
            return
        self._being_withdrawn.add(number)
        core = self._engine.current.core
        core.post(withdraw(core, number, why, withdrawn), failed=not_withdrawn)

    def _begin_read(self) -> None:
        self._must_read_again = False
        engine = self._reading_engine = self._engine.current
        self._after_read += self._after_next_read
        self._after_next_read = []
        engine.core.post(self._read_rows(engine, tuple(sorted(self._targets_put_off))), failed=self._read_failed)

    @work
    def _read_rows(self, engine: LocalEngine, targets_left_out: tuple[str, ...]) -> Steps:
        query = SubmittedRows(BATCH, targets_left_out, engine.core.settings.max_document_bytes, HEADERS_JSON_MAX)
        unit = yield Needs(queries={query})
        loaded: Sequence[Submitted] = unit.found.get(query, ())
        # Earlier work of this unit may have taken, refused or removed loaded rows.
        settled = {*unit.taken_submissions, *unit.refused_submissions, *unit.removed_submissions}
        rows = [row for row in loaded if row.row_id not in settled]
        yield COMMITTED
        self._submit(engine, rows)

    def _submit(self, engine: LocalEngine, rows: list[Submitted]) -> None:
        self._reading_engine = None
        new = [row for row in rows if row.row_id not in self._under_way and row.row_id not in self._being_withdrawn]
        self._under_way.update(row.row_id for row in new)
        self._call_when_settled([row.row_id for row in new])
        submissions: list[Submission] = []
        for row in new:
            try:
                submissions.append(self._submission_of(row))
            except SemqError as error:
                self._refuse(row, error)
            except Exception as error:  # noqa: BLE001  # a row must not stop others
                self._refuse(row, BadInput("The row cannot be read.", fault=shortened(repr(error), 200)))
        if submissions:
            engine.submit(submissions)
        self._store_waits(is_round_over=not self._under_way)
        if self._must_read_again and not new:
            self._begin_read()

    def _call_when_settled(self, numbers: Sequence[int]) -> None:
        """Make the calls that wait for the present read when these submissions are settled."""
        calls, self._after_read = self._after_read, []
        if not calls:
            return
        waiting = set(numbers)

        def settled(number: int, result: SubmissionResult | None = None) -> None:
            waiting.discard(number)
            if not waiting:
                for call in calls:
                    call()

        for number in numbers:
            self.listen(number, partial(settled, number))
        if not numbers:
            settled(0)

    def _read_failed(self, error: Exception) -> None:
        self._reading_engine = None
        self._call_when_settled(())
        log.error("submissions_not_read", error=str(error))

    def _settle(self, row: Submitted, result: SubmissionResult) -> None:
        """Note the result of a row; after the last row of a read, read again."""
        self._under_way.discard(row.row_id)
        if result.state != "waits":
            self._held.release(row.row_id)
        for report in self._listeners.pop(row.row_id, ()):
            report(result)
        if self._under_way:
            return
        if self._reading_engine is self._engine.current:
            self._must_read_again = True  # the read under way may find only rows settled now
        else:
            self._begin_read()

    def _put_row_off(self, row: Submitted, error: Exception) -> None:
        """Let a row wait, with the reason; pass over all rows to the target."""
        if not self._targets_put_off:
            self._poll_again()
        cause = semq_error(error)
        first_number, _ = self._targets_put_off.setdefault(row.target, (row.row_id, cause))
        if row.row_id < first_number:
            self._targets_put_off[row.target] = (row.row_id, cause)
        reason = (cause.code, cause.text)
        if reason != (row.wait_code, row.wait_text):
            self._engine.current.core.post(_note_wait(row.row_id, reason))
        self._settle(row, SubmissionResult("waits", reason=reason))

    def _refuse(self, row: Submitted, error: SemqError) -> None:
        """Refuse a row. It stays under way until the commit of the refusal, because reads find it until then."""
        log.warning("submission_refused", number=row.row_id, target=row.target, app_key=row.app_key, error=str(error))

        def done(lk0: LK0) -> None:
            self._settle(row, SubmissionResult("refused", str(lk0), (error.code, error.text)))

        core = self._engine.current.core
        core.post(refuse(core, row, error, done), failed=lambda fault: self._put_row_off(row, fault))

    def _submission_of(self, row: Submitted) -> Submission:
        def done(accepted: Accepted) -> None:
            self._settle(row, SubmissionResult("accepted", str(accepted.lk0)))

        def failed(error: Exception) -> None:
            if isinstance(error, BadInput):
                self._refuse(row, error)
            else:
                self._put_row_off(row, error)

        if row.envelope:
            envelope = envelope_of(row)
            return Submission(
                envelope.target, envelope.attributes, row.payload, done, failed, token=row.token,
                sender=envelope.sender, row_id=row.row_id, scheduled_as=row.lk0, held=self._held,
            )  # fmt: skip
        attributes, requests = self._attributes(row)
        return Submission(
            parse_address(row.target), attributes, row.payload, done, failed, token=row.token or requests.token,
            row_id=row.row_id, held=self._held,
        )  # fmt: skip

    def _attributes(self, row: Submitted) -> tuple[Attributes, NodeRequests]:
        settings = self._engine.current.core.settings
        if row.size > settings.max_document_bytes:  # its payload was not read
            raise DocumentTooLarge(size=row.size, allowed=settings.max_document_bytes)
        if row.headers is None:
            raise HeadersTooLarge("The headers of the document are too long as JSON.", allowed=HEADERS_JSON_MAX)
        columns = {name: getattr(row, name) for name in _COLUMNS}
        properties = {name: getattr(row, name) for name in PROPERTIES}
        headers, own_headers = split_given(json.loads(row.headers))
        attributes, requests = read_submission(headers | submission_headers(columns), properties, own_headers)
        if requests.not_before:  # ``semq_send`` moves @NotBefore from the headers to the column
            raise BadAttribute("Give the time in the column not_before, not in the headers.", attribute="@NotBefore")
        check_carried(attributes)
        return attributes, requests

    def _store_waits(self, *, is_round_over: bool) -> None:
        """Store which targets are passed over, if that has changed, for ``semq_status`` and operators.

        A round of reads begins with a poll, and ends with the read that finds no further rows. During a round, targets
        are only added.
        """
        waits = {} if is_round_over else dict(self._stored_waits or {})
        waits |= {
            target: TargetWait(number, (error.code, error.text))
            for target, (number, error) in self._targets_put_off.items()
        }
        earlier = {} if is_round_over else self.waiting
        self.waiting = {**earlier, **{target: error for target, (_, error) in self._targets_put_off.items()}}
        if waits == self._stored_waits:
            return
        for target in sorted(self._targets_put_off.keys() - (self._stored_waits or {}).keys()):
            log.warning("submissions_wait", target=target, error=self.waiting[target].advice())
        self._stored_waits = waits
        self._engine.current.core.post(_write_waits(waits), failed=lambda error: self._waits_not_written())

    def _waits_not_written(self) -> None:
        self._stored_waits = None


@work
def _note_wait(number: int, reason: Reason) -> Steps:
    """Store why a submission waits. If this fails, the next read stores it."""
    unit = yield NO_NEEDS
    unit.waiting_submissions[number] = reason


@work
def _write_waits(waits: dict[str, TargetWait]) -> Steps:
    unit = yield NO_NEEDS
    unit.submissions_wait = waits
