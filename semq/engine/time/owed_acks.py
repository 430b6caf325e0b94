"""What this node owes: acknowledgements that may not have been noted (PROTOCOL.md R7 and R8)."""

from collections.abc import Callable, Iterator

from semq.engine.core import Core
from semq.engine.receiver.handover import Handing
from semq.engine.receiver.reacks import asks_about
from semq.engine.time.inquiry import Sweep
from semq.engine.time.schedule import Schedule
from semq.store.rows import Pending
from semq.store.unit import Query, Unfinished, Unit
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Primitive
from semq.umx_t.records import Inquiry
from semq.umx_t.status import AppStatus


class PendingAsker:
    """Asks platform and senders whether they have noted our acknowledgements."""

    def __init__(self, core: Core, handing: Handing, ready: Callable[[], bool]) -> None:
        self.core = core
        self.handing = handing
        self.hub: Address | None = None
        s = core.settings
        self.schedule = Schedule(s.inquiry_s, s.inquiry_s_max)
        self.sweep = Sweep(core, self.schedule, Unfinished, self._look, ready, self._after)
        self._asks: list[tuple[Address, Inquiry]] = []
        self._done: list[Pending] = []

    def recorded(self, bref: int) -> None:
        """A row was recorded and acknowledged: ask if no ReAck comes."""
        self.schedule.add(bref, self.core.now())

    def _look(self, unit: Unit, query: Query) -> Iterator[tuple[int, bool]]:
        self._asks, self._done = [], []
        for row in unit.pending_found(query):
            order = self.handing.orders.get((row.lk0.store, row.order_key)) if row.order_key else None
            blocked = order is not None and order.blocked == row.bref
            if row.is_done:
                self._done.append(row)  # finished by the application's own transaction
            elif row.owes or blocked:
                self._asks.extend(asks_about(row, self.hub, blocked=blocked))
            yield row.bref, row.app_status is not AppStatus.NEW and not row.owes

    def _after(self) -> None:
        for to, inquiry in self._asks:
            self.core.count("inquired")
            self.core.mail.add(to, Function.INQUIRIES, Primitive.REQUEST, inquiry)
        for row in self._done:
            self.handing.finished(row.bref)
