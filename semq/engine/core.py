"""State shared by all parts of an engine: address, store, clock, outgoing mail and counters."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from semq.clock import Clock
from semq.engine.document_spans import DocumentSpans
from semq.engine.latency import Latency
from semq.engine.mail import Mail
from semq.engine.misconduct import Misconduct
from semq.engine.ports import AppEvent, Counters, Events, PreparedEvent
from semq.engine.receiver.pieces import PieceStock
from semq.engine.settings import EngineSettings
from semq.engine.violations import WINDOW_S, Violations
from semq.errors import SemqError, Unavailable
from semq.foreign_text import shortened
from semq.store.rows import MARKER, Event, LedgerLine, Outbound, RareChange, Side
from semq.store.unit import Recovered, Unit
from semq.store.work import COMMITTED, NO_NEEDS, Failed, Steps, Work, WorkStore, work
from semq.umx_t.address import Address
from semq.umx_t.locator import LK0, LK1, Store
from semq.umx_t.status import Outcome

log = logging.getLogger(__name__)

LINES_TOGETHER = 1000  # lines of the ledger in one piece of work
UNWRITTEN_MAX = 100_000  # kept lines while the store is away
T = TypeVar("T")


class Core:
    """The shared state of one engine."""

    def __init__(
        self,
        address: Address,
        own_store: Store,
        recovered: Recovered,
        store: WorkStore,
        clock: Clock,
        settings: EngineSettings,
        events: Events,
        on_mail: Callable[[bool], None],
        spans: DocumentSpans | None = None,
    ) -> None:
        self.address = address
        self.own_store = own_store  #: the store named in this node's locators
        self.inc = recovered.inc
        self.clock = clock
        self.settings = settings
        self.events = events
        self.counters = Counters()
        self.latency = Latency()
        self.spans = spans  #: None unless spans are exported
        self.violations = Violations()
        self.misconduct = Misconduct()
        self.mail = Mail(address, settings.packet_records, on_mail)
        self.pieces = PieceStock(recovered.pieces)
        self._store = store
        self._next_id = recovered.first_id
        #: Starts at a random number: answers to inquiries of an earlier process match no inquiry of this one.
        self._nonce = recovered.inc >> 12
        unwritten = list(store.unwritten)
        store.unwritten.clear()
        self.note_lines(unwritten)

    def reconfigure(self, settings: EngineSettings) -> None:
        """Use other settings; inquiry intervals and the size of packets change only at the next start."""
        self.settings = settings

    def post(
        self, work: Work, *, later: bool = False, failed: Failed | None = None, ahead: Sequence[tuple[str, bytes]] = ()
    ) -> None:
        """Post work to the store.

        ``later``: the work may wait for other work and share its commit. ``failed`` is called if the work is abandoned;
        without ``failed``, timers repeat the work. ``ahead``: large bodies by table; while they are written, other work
        may overtake this work.
        """
        if failed is not None:
            work.on_failure = failed
        work.ahead = ahead
        self._store.post(work, later=later)

    def post_each(
        self,
        items: Sequence[T],
        make: Callable[[Sequence[T]], Work],
        failed: Callable[[Sequence[T], Exception], None] = lambda items, error: None,
        *,
        later: bool = False,
    ) -> None:
        """Post the work of several items, which ``make`` returns. If it fails, post the work of each item alone, so
        that an item for which Postgres refuses a row stops no other. ``failed`` gets a single item, or all items if the
        store is away or the work was part of a transaction.
        """
        whole = make(items)

        def divide(error: Exception) -> None:
            if len(items) == 1 or whole.is_part or isinstance(error, Unavailable):
                failed(items, error)
                return
            for item in items:
                self.post_each([item], make, failed)

        self.post(whole, failed=divide, later=later)

    def new_id(self) -> int:
        number = self._next_id
        self._next_id += 1
        return number

    def new_nonce(self) -> int:
        """Return the number of a new inquiry (rule N28)."""
        self._nonce += 1
        return self._nonce

    def new_lk0(self) -> LK0:
        return LK0(*self.own_store, self.inc, self.new_id())

    def lk1(self, object_id: int) -> LK1:
        """Return the locator of a copy in this store."""
        return LK1(self.own_store.semq_id, self.own_store.semq_db_id, object_id)

    def now(self) -> float:
        """Return monotonic seconds."""
        return self.clock.monotonic()

    def now_ms(self) -> int:
        """Return milliseconds since 1970 UTC."""
        return int(self.clock.wall().timestamp() * 1000)

    def count(self, name: str, count: int = 1) -> None:
        self.counters.add(name, count)

    def line(
        self, side: Side, event: Event, row: Outbound, detail: str = "", at: int | None = None, *, lk1: str = "",
        digest: bytes = b"", size: int = 0,
    ) -> LedgerLine:  # fmt: skip
        """Return a ledger line about a row of tb_0031. ``at`` None: now."""
        at = self.now_ms() if at is None else at
        lk0, target = str(row.lk0), str(row.target)
        return LedgerLine(at, side, event, lk0, target, row.att, lk1, digest=digest, size=size, detail=detail)

    def note_violation(self, unit: Unit, side: Side, error: SemqError, lk0: str = "", peer: str = "") -> None:
        """Note a violation by a peer in the ledger, as far as ``violations`` admits lines."""
        line = LedgerLine(
            self.now_ms(), side, Event.VIOLATION, lk0[:200], peer[:140], detail=shortened(str(error), 500)
        )
        self.count_violation(unit.ledger, peer, line, error)

    def count_violation(self, ledger: list[LedgerLine], peer: str, line: LedgerLine, error: SemqError) -> None:
        """Count a violation; add the line to ``ledger`` unless the peer has used up the lines of this minute."""
        self.count(line.event.name.lower())
        self.misconduct.note(peer, error.code, str(error).removeprefix(f"{error.code} "), line.at)
        if self.violations.admit(peer[:140], self.now()):
            ledger.append(line)

    def write_violation_counts(self, side: Side) -> None:
        """Write for each peer how many violations of the ended minute got no line."""
        lines = [
            LedgerLine(
                self.now_ms(), side, Event.VIOLATION, "", peer,
                detail=f"{more} more violations of this peer within {WINDOW_S:.0f} s have no line of their own.",
            )
            for peer, more in self.violations.ended(self.now())
        ]  # fmt: skip
        self.note_lines(lines)

    def note_lines(self, lines: Sequence[LedgerLine], *, later: bool = False) -> None:
        """Write lines about events that changed no row; if the store is away, when it is back.

        The messages of these lines have left already. So after an unknown result of a commit a line may be written
        twice, but none is missing.
        """
        for start in range(0, len(lines), LINES_TOGETHER):
            self.post_each(lines[start : start + LINES_TOGETHER], note_lines, self._keep_lines, later=later)

    def _keep_lines(self, lines: Sequence[LedgerLine], error: Exception) -> None:
        unwritten = self._store.unwritten
        if not isinstance(error, Unavailable):
            return  # the store reports refused rows
        if len(unwritten) < UNWRITTEN_MAX:
            unwritten.extend(lines)
        else:
            log.error("the store is away, and %d more lines of the ledger cannot be kept", len(lines))

    def prepare_row_event(
        self, unit: Unit, kind: str, row: Outbound, prepared: list[PreparedEvent], at: int,
        corrects: Outcome | None = None,
    ) -> None:  # fmt: skip
        """Prepare an event about a row. ``corrects``: the wrong outcome that an earlier event reported."""
        outcome = row.outcome.name if row.outcome else ""
        event = AppEvent(
            kind, row.lk0, row.target, row.app_key, at, row.att, outcome, row.reason, token=row.token or "",
            corrects=corrects.name if corrects else "", group=row.group, document=row.document,
        )  # fmt: skip
        self.prepare_event(unit, event, prepared)

    def prepare_event(self, unit: Unit, event: AppEvent, prepared: list[PreparedEvent]) -> None:
        """Add an application event to the unit and to ``prepared``, which the caller passes to ``events.publish`` after
        the commit."""
        rows = self.events.prepare(event)
        if rows is not None:
            unit.broker.extend(rows.ops)
            prepared.append(rows)


@work
def note_lines(lines: Sequence[LedgerLine], done: Callable[[], None] = lambda: None) -> Steps:
    """Write ledger lines about an event that changed no row."""
    unit = yield NO_NEEDS
    unit.ledger.extend(lines)
    yield COMMITTED
    done()


@work
def apply_rare_changes(changes: Sequence[RareChange]) -> Steps:
    """Change rows outside the tables of messages, for instance certificates."""
    unit = yield NO_NEEDS
    unit.rare_changes.extend(changes)


def earliest(dues: Iterable[float | None]) -> float | None:
    """Return the earliest time; None if there is none."""
    first = None
    for due in dues:
        if due is not None and (first is None or due < first):
            first = due
    return first


def with_why(what: str, why: str) -> str:
    """Return the ledger's text of an act, with the reason if one was given."""
    return f"{what}: {why}" if why else what


def with_marker_note(detail: str, is_marker: bool) -> str:
    """Return the detail of a ledger line, marked if the line is about a void marker."""
    return (f"{detail}; {MARKER}" if detail else MARKER) if is_marker else detail
