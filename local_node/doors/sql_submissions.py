"""Documents that applications wrote through SQL (tb_0031_submit): taken when they are committed there.

A NOTIFY wakes at once, a job looks every ten seconds; nothing depends on either. A row counts as accepted when it has
moved to tb_0031. One that cannot be accepted stays where it is and is told like any other failure: an event ``failed``,
a line of the ledger under a locator of its own, a place in ``semq failed list`` (``refused_submissions``). One that
cannot be accepted yet (a rate, a quota, a key) stays without, and says why. The rows to its target that were not read
with it are passed over until the next poll, so that they hold up nobody else's; tb_0031_wait names the one they are
behind.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import structlog

from local_node.doors.refused_submissions import refuse, withdraw
from semq.engine.errors import DocumentTooLarge, NotThere
from semq.engine.frames import check_carried
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Accepted, Submission
from semq.engine.sender.scheduled import envelope_of
from semq.errors import BadInput, SemqError, Unavailable
from semq.foreign_text import shortened
from semq.store.rows import Reason, Submitted, TargetWait
from semq.store.unit import Needs, SubmittedRows
from semq.store.work import COMMITTED, NO_NEEDS, Steps, work
from semq.umx_t.address import parse_address
from semq.umx_t.attributes import ARGUMENTS, PROPERTIES, submission_headers
from semq.umx_t.envelope import Attributes
from semq.umx_t.errors import BadAttribute
from semq.umx_t.headers import Handling, read_submission
from semq.umx_t.locator import LK0

BATCH = 500
_COLUMNS = [each.name for each in fields(Submitted) if each.name in ARGUMENTS and ARGUMENTS[each.name].is_of_document]
log = structlog.get_logger("semq.sql")


@dataclass(frozen=True, slots=True)
class SubmissionFate:
    """What one look has made of a submission."""

    state: str  #: accepted, refused or waits
    lk0: str = ""  #: of the document, or of the refusal
    reason: Reason | None = None  #: of a refusal, or of what it waits for


class SqlSubmissions:
    """Moves rows of tb_0031_submit into the engine, a batch at a time."""

    def __init__(self, engine: Callable[[], LocalEngine], again: Callable[[], None]) -> None:
        """``again`` is called where rows have to wait, once a poll, and has to poll a second later."""
        self._engine = engine
        self._again = again
        self._under_way: set[int] = set()
        self._withdrawn: set[int] = set()  #: not to be read any more, although a look may have found them
        self._listeners: dict[int, list[Callable[[SubmissionFate], None]]] = {}
        self.waiting: dict[str, SemqError] = {}  #: why rows wait, by target
        self._put_off: dict[str, tuple[int, SemqError]] = {}  #: by target the first row that waits, as far as looked
        self._told: dict[str, TargetWait] | None = None  #: what tb_0031_wait says; None: not known
        self._polling: LocalEngine | None = None
        self._behind = False  #: rows went through while a look was under way

    def poll(self) -> None:
        """Look for new rows, unless a look is under way."""
        if self._polling is not self._engine():
            self._put_off = {}
            self._look()
        elif self._put_off:
            self._again()

    def released(self) -> None:
        """Look for scheduled documents that were released, again if a look is under way, which may not see them."""
        if self._polling is self._engine():
            self._behind = True
        self.poll()

    def listen(self, number: int, told: Callable[[SubmissionFate], None]) -> None:
        """Tell, once, what the next look makes of a submission."""
        self._listeners.setdefault(number, []).append(told)

    def deaf(self, number: int, told: Callable[[SubmissionFate], None]) -> None:
        """Tell no more."""
        listeners = self._listeners.get(number, [])
        if told in listeners:
            listeners.remove(told)
        if not listeners:
            self._listeners.pop(number, None)

    def withdraw(self, number: int, why: str, done: Callable[[LK0], None], failed: Callable[[Exception], None]) -> None:
        """Take a submission back that waits. One that is on its way into tb_0031 is waited for: NotThere if it has
        arrived, it is a document then."""

        def told(fate: SubmissionFate) -> None:
            if fate.state == "accepted":
                failed(NotThere(number=number, lk0=fate.lk0))
            else:
                self.withdraw(number, why, done, failed)

        def gone(lk0: LK0) -> None:
            self._withdrawn.discard(number)
            done(lk0)

        def stays(error: Exception) -> None:
            self._withdrawn.discard(number)
            failed(error)

        if number in self._under_way:
            self.listen(number, told)
            return
        self._withdrawn.add(number)
        core = self._engine().core
        core.post(withdraw(core, number, why, gone), failed=stays)

    def _look(self) -> None:
        self._behind = False
        engine = self._polling = self._engine()
        engine.core.post(self._read_rows(engine, tuple(sorted(self._put_off))), failed=lambda error: self.failed())

    @work
    def _read_rows(self, engine: LocalEngine, without: tuple[str, ...]) -> Steps:
        query = SubmittedRows(BATCH, without, engine.core.settings.max_document)
        unit = yield Needs(queries={query})
        found: Sequence[Submitted] = unit.found.get(query, ())
        # What work before this has taken in the same unit was still there when the unit was loaded.
        settled = {*unit.taken_submissions, *unit.refused_submissions, *unit.removed_submissions}
        rows = [row for row in found if row.row_id not in settled]
        yield COMMITTED
        self.found(engine, rows)

    def found(self, engine: LocalEngine, rows: list[Submitted]) -> None:
        """Hand rows to the engine; refuse those that make no sense. Another look follows when all are through."""
        self._polling = None
        new = [row for row in rows if row.row_id not in self._under_way and row.row_id not in self._withdrawn]
        self._under_way.update(row.row_id for row in new)
        submissions: list[Submission] = []
        for row in new:
            try:
                submissions.append(self._read(row))
            except SemqError as error:
                self._refuse(row, error)
            except Exception as error:  # noqa: BLE001  # whatever it holds, a row must not stop those behind it
                self._refuse(row, BadInput("The row cannot be read.", fault=shortened(repr(error), 200)))
        if submissions:
            engine.submit(submissions)
        self._tell_waiting(is_over=not self._under_way)
        if self._behind and not new:
            self._look()

    def failed(self) -> None:
        """The look came to nothing; the next poll looks again."""
        self._polling = None

    def _through(self, row: Submitted, fate: SubmissionFate) -> None:
        """A row is taken, refused or put off. After the last one, look for more: a look is bounded."""
        self._under_way.discard(row.row_id)
        for told in self._listeners.pop(row.row_id, ()):
            told(fate)
        if self._under_way:
            return
        if self._polling is self._engine():
            self._behind = True  # the look under way may have seen only these rows
        else:
            self._look()

    def _wait(self, row: Submitted, error: Exception) -> None:
        """Pass over the rows to this target until the next poll, which comes soon; note this one's own reason."""
        if not self._put_off:
            self._again()
        known = error if isinstance(error, SemqError) else Unavailable(fault=shortened(repr(error), 200))
        first = self._put_off.setdefault(row.target, (row.row_id, known))
        if row.row_id < first[0]:
            self._put_off[row.target] = (row.row_id, known)
        reason = (known.code, known.text)
        if reason != (row.wait_code, row.wait_text):
            self._engine().core.post(_note_wait(row.row_id, reason))
        self._through(row, SubmissionFate("waits", reason=reason))

    def _refuse(self, row: Submitted, error: SemqError) -> None:
        """Refuse a row; until that is committed, looks still find it."""
        log.warning("submission_refused", number=row.row_id, target=row.target, app_key=row.app_key, error=str(error))

        def done(lk0: LK0) -> None:
            self._through(row, SubmissionFate("refused", str(lk0), (error.code, error.text)))

        core = self._engine().core
        core.post(refuse(core, row, error, done), failed=lambda fault: self._wait(row, fault))

    def _read(self, row: Submitted) -> Submission:
        def done(accepted: Accepted) -> None:
            self._through(row, SubmissionFate("accepted", str(accepted.lk0)))

        def failed(error: Exception) -> None:
            if isinstance(error, BadInput):
                self._refuse(row, error)
            else:
                self._wait(row, error)

        if row.envelope:
            envelope = envelope_of(row)
            return Submission(
                envelope.target, envelope.attributes, row.payload, done, failed, token=row.token,
                sender=envelope.sender, row_id=row.row_id, scheduled_as=row.lk0,
            )  # fmt: skip
        attributes, handling = self._attributes(row)
        return Submission(
            parse_address(row.target), attributes, row.payload, done, failed, token=row.token or handling.token,
            row_id=row.row_id,
        )  # fmt: skip

    def _attributes(self, row: Submitted) -> tuple[Attributes, Handling]:
        """Return the attributes of a submission by SQL, and what it asks of this node."""
        settings = self._engine().core.settings
        if row.size > settings.max_document:  # its payload was not read
            raise DocumentTooLarge(size=row.size, allowed=settings.max_document)
        columns = {name: getattr(row, name) for name in _COLUMNS}
        properties = {name: getattr(row, name) for name in PROPERTIES}
        attributes, handling = read_submission({**row.headers, **submission_headers(columns)}, properties)
        if handling.not_before:  # ``semq_send`` takes it out of the headers
            raise BadAttribute("The column not_before has the time, not the headers.", attribute="@NotBefore")
        check_carried(attributes)
        return attributes, handling

    def _tell_waiting(self, *, is_over: bool) -> None:
        """Write down which targets are passed over, where that has changed, for ``semq_status`` and for people.

        Before a round of looks ``is_over``, others may still be found to wait, and none is known to wait no more.
        """
        now = {} if is_over else dict(self._told or {})
        now |= {
            target: TargetWait(number, (error.code, error.text)) for target, (number, error) in self._put_off.items()
        }
        kept = {} if is_over else self.waiting
        self.waiting = {**kept, **{target: error for target, (_, error) in self._put_off.items()}}
        if now == self._told:
            return
        for target in sorted(self._put_off.keys() - (self._told or {}).keys()):
            log.warning("submissions_wait", target=target, error=self.waiting[target].advice())
        self._told = now
        self._engine().core.post(_write_waits(now), failed=lambda error: self._not_written())

    def _not_written(self) -> None:
        """The content of tb_0031_wait is not known; the next poll writes it again."""
        self._told = None


@work
def _note_wait(number: int, reason: Reason) -> Steps:
    """Note why one submission waits; failing that, the next look at it notes it."""
    unit = yield NO_NEEDS
    unit.waiting_submissions[number] = reason


@work
def _write_waits(waits: dict[str, TargetWait]) -> Steps:
    """Replace the targets that are passed over."""
    unit = yield NO_NEEDS
    unit.submissions_wait = waits
