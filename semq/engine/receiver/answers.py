"""Answers of applications about delivered documents, and acts of operators on received documents (PROTOCOL.md R6)."""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from semq.engine.core import Core, with_why
from semq.engine.latency import Stage
from semq.engine.receiver.delivery import DETAIL_MAX, AfterDelivery, apply_event, take_back
from semq.engine.receiver.handover import Handover
from semq.engine.time.cleanup import delete_if_done
from semq.errors import Unavailable
from semq.foreign_text import shortened
from semq.store.postgres.errors import RowRefused
from semq.store.rows import Pending
from semq.store.unit import Needs, Unit
from semq.store.work import COMMITTED, Failed, Steps, after_commit, work
from semq.umx_t.grids import HandlingEvent
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.status import AppStatus, Arrival


class ActReport(Struct, frozen=True):
    """Callbacks of an act: ``done`` gets the number of changed rows after the commit."""

    done: Callable[[int], None]
    failed: Failed


class ApplicationAnswer(Struct, frozen=True):
    """An answer or act about some documents."""

    brefs: Sequence[int]
    event: HandlingEvent
    detail: str = ""
    only: AppStatus | None = None  #: for an act, the state of the rows to change; None: an answer of a consumer
    has_left: bool = True  #: whether the documents were sent to a client; else their delivery does not count

    @property
    def is_act(self) -> bool:
        """Whether this is an act, by an operator or by SQL."""
        return self.only is not None


class ApplicationAnswers:
    """Processes answers and acts."""

    def __init__(self, core: Core, handover: Handover) -> None:
        self._core = core
        self._handover = handover

    def finish(self, brefs: Sequence[int]) -> None:
        """Note that the application has acknowledged these documents."""
        # No application waits for this commit, but with order keys the next document does.
        self._post(ApplicationAnswer(list(brefs), HandlingEvent.done), later=not self._handover.orders)

    def fail(self, brefs: Sequence[int], detail: str = "") -> None:
        """Park documents that the application cannot process."""
        self._post(ApplicationAnswer(list(brefs), HandlingEvent.fail, detail))

    def give_back(self, brefs: Sequence[int]) -> None:
        """Deliver returned documents again. Park a document that was delivered ``deliveries_max`` times."""
        self._post(ApplicationAnswer(list(brefs), HandlingEvent.back))

    def take_back(self, brefs: Sequence[int]) -> None:
        """Deliver documents again that no client could take. Their delivery does not count."""
        self._post(ApplicationAnswer(list(brefs), HandlingEvent.back, has_left=False))

    def park(self, brefs: Sequence[int], why: str, report: ActReport | None = None) -> None:
        """Park documents that wait for the application or are with it."""
        self._post(ApplicationAnswer(list(brefs), HandlingEvent.fail, why, AppStatus.NEW), report)

    def requeue(self, brefs: Sequence[int], why: str = "", report: ActReport | None = None) -> None:
        """Deliver parked documents again."""
        detail = with_why("requeued", why)
        self._post(ApplicationAnswer(list(brefs), HandlingEvent.requeue, detail, AppStatus.PARKED), report)

    def remove(self, brefs: Sequence[int], why: str, report: ActReport | None = None) -> None:
        """Set parked documents to DONE, so that they are deleted."""
        detail = with_why("removed", why)
        self._post(ApplicationAnswer(list(brefs), HandlingEvent.done, detail, AppStatus.PARKED), report)

    def when_committed(self, report: ActReport) -> None:
        """Call ``done`` with 0 after the commit of all work posted so far, or ``failed``."""
        self._core.post(after_commit(lambda: report.done(0)), failed=report.failed)

    def _post(self, answer: ApplicationAnswer, report: ActReport | None = None, *, later: bool = False) -> None:
        failed = report.failed if report is not None else None
        if report is not None:
            not_committed = partial(self.not_committed, answer, failed=failed)
            self._core.post(self._handle(answer, report), later=later, failed=not_committed)
            return
        self._core.post_each(
            answer.brefs,
            lambda brefs: self._handle(replace(answer, brefs=brefs), None),
            lambda brefs, error: self.not_committed(replace(answer, brefs=brefs), error),
            later=later,
        )

    @work
    def _handle(self, answer: ApplicationAnswer, report: ActReport | None) -> Steps:
        unit = yield Needs(pending=set(answer.brefs))
        changes = self.change_rows(unit, answer)
        yield COMMITTED
        changes.apply()
        if report is not None:
            report.done(changes.count)

    def change_rows(self, unit: Unit, answer: ApplicationAnswer) -> "ChangedRows":
        """Change the rows of an answer in an open transaction. Call ``apply`` of the result after the commit."""
        return ChangedRows(self._core, self._handover, unit, answer)

    def not_committed(self, answer: ApplicationAnswer, error: Exception, failed: Failed | None = None) -> None:
        """Deliver the documents of an answer again, because its commit failed."""
        self._core.count("answer_failed")
        if not answer.is_act:
            # If the store is lost, the next engine delivers the document again. So it does if Postgres refuses the row
            # whenever it is changed: this engine would deliver the document, and fail, without end.
            is_lost = isinstance(error, Unavailable) or (isinstance(error, RowRefused) and not error.is_passing)
            end_delivery = self._handover.release if is_lost else self._handover.deliver_again
            for bref in answer.brefs:
                end_delivery(bref)
        if failed is not None:
            failed(error)


class ChangedRows:
    """The rows that an answer changes in one unit."""

    def __init__(self, core: Core, handover: Handover, unit: Unit, answer: ApplicationAnswer) -> None:
        self._core = core
        self._handover = handover
        self._answer = answer
        self._after = AfterDelivery(core.now_ms())
        self._detail = shortened(answer.detail.replace("\0", "\N{REPLACEMENT CHARACTER}"), DETAIL_MAX)
        self._rows = [row for bref in answer.brefs if (row := self._change(unit, bref)) is not None]

    @property
    def count(self) -> int:
        return len(self._rows)

    def _change(self, unit: Unit, bref: int) -> Pending | None:
        """Change a row by the grid and return it; None if it is gone, or if its state does not permit the answer."""
        row, event, detail = unit.pending.get(bref), self._answer.event, self._detail
        if row is None:
            self._core.count("answer_late")
            return None
        if self._answer.only is not None and row.app_status is not self._answer.only:
            return None
        if not self._answer.has_left:
            take_back(unit, row)
        elif event is HandlingEvent.back and row.deliveries >= self._core.settings.deliveries_max:
            event, detail = HandlingEvent.fail, f"delivered {row.deliveries} times without an acknowledgement"
        if event is HandlingEvent.requeue and row.status is not Arrival.RECV:
            return None  # refused on arrival: without a payload
        apply_event(unit, row, event, self._after, detail)
        if row.target.user != PIECES_USER:
            delete_if_done(self._core, unit, row)
        return row

    def apply(self) -> None:
        """After the commit: release the documents, and deliver waiting ones."""
        for bref in self._answer.brefs:
            self._handover.release(bref)
        for row in self._rows:
            self._handover.note_answered(row)
            if row.target.user == PIECES_USER:
                self._core.pieces.end(row)
                # Not deleted here: one commit may end thousands of pieces, with gigabytes.
                self._handover.to_clean.append(row.bref)
            if self._answer.event is HandlingEvent.done and not self._answer.is_act:
                self._core.latency.observe(Stage.ACKNOWLEDGED, (self._after.at - row.received_at) / 1000)
        for row in self._after.offered:
            if not row.order_key:
                self._handover.note_waiting(row, row.bref)
