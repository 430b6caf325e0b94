"""Inquiries about acknowledgements that may not have been noted, and about rows blocked by their order (PROTOCOL.md R7
and R8)."""

from collections.abc import Sequence

from semq.engine.core import Core
from semq.engine.receiver.handover import Handover
from semq.engine.receiver.order import may_follow, predecessor_needs
from semq.engine.receiver.reacks import owed_inquiries
from semq.engine.time.inquiry import Asked, Sweep
from semq.engine.time.schedule import Schedule
from semq.engine.uplink import NodeSessions
from semq.store.rows import Pending
from semq.store.unit import Needs, Query, Unfinished, Unit
from semq.store.work import COMMITTED, Steps, work
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.records import Inquiry


class PendingAsker:
    """Inquires about rows of tb_0030, and notes those that may be deleted."""

    def __init__(self, core: Core, handover: Handover, uplink: NodeSessions) -> None:
        self._core = core
        self._handover = handover
        self._uplink = uplink
        self.schedule = Schedule(core.settings.inquiry_s, core.settings.inquiry_s_max)
        self.sweep = Sweep(core, self.schedule, Unfinished, self._ask, lambda: uplink.has_any)

    def recorded(self, bref: int) -> None:
        """Plan an inquiry about a recorded row, in case no ReAck arrives."""
        self.schedule.add(bref, self._core.now())

    def _ask(self, unit: Unit, query: Query) -> Asked:
        inquiries: list[tuple[Address, Inquiry]] = []
        finished: list[int] = []
        unsearched: list[Pending] = []
        rows = owing = 0
        for row in unit.pending_found(query):
            rows += 1
            order = self._handover.orders.get((row.lk0.store, row.order_key)) if row.order_key else None
            blocked = order is not None and order.blocked == row.bref
            if row.is_removable:
                finished.append(row.bref)  # the application's own transaction has set it to done
            elif row.owes or blocked:
                owing += row.owes
                inquiries.extend(owed_inquiries(row, self._uplink.hub, blocked=blocked))
            elif row.order_key and order is None and row.prev is not None:
                unsearched.append(row)
        # Unless an acknowledgement is owed, the slower pace is enough: many documents may wait for the application.
        return Asked(rows, lambda: self._apply(inquiries, finished, unsearched), patient=owing == 0)

    def _apply(self, inquiries: list[tuple[Address, Inquiry]], finished: list[int], unsearched: list[Pending]) -> None:
        for to, inquiry in inquiries:
            self._core.count("inquired")
            self._core.mail.add(to, Function.INQUIRIES, Primitive.REQUEST, inquiry)
        for bref in finished:
            self._handover.note_finished(bref)
        if unsearched:
            self._core.post(self._find_blocked(unsearched))

    @work
    def _find_blocked(self, rows: Sequence[Pending]) -> Steps:
        """Continue the orders of rows that wait for their predecessors. If nobody consumes, nothing else finds out that
        these rows are blocked, so that the next inquiry asks about them."""
        needs = Needs()
        for row in rows:
            needs.add(predecessor_needs(row))
        unit = yield needs
        blocked = [row for row in rows if not may_follow(unit, row)]
        yield COMMITTED
        for row in blocked:
            self._handover.continue_order((row.lk0.store, row.order_key), row.target.user)
