"""The own store of a process of the hub, and the retired stores (PROTOCOL.md section 10, ``retire``).

Only the store of a copy can answer for it. Once an operator has retired that store, Acks about its copies are answered
with ReAck (H6) and inquiries of senders with GONE (H9), so that the receivers' ledgers decide.
"""

from collections.abc import Callable, Sequence

from semq.engine.core import Core
from semq.engine.errors import StoreInUse
from semq.engine.hub.carrier import StoreName
from semq.engine.hub.deeds import Ack, answered, reack
from semq.store.rows import RetiredStore
from semq.store.unit import Recovered
from semq.store.work import COMMITTED, NO_NEEDS, Failed, Steps, work
from semq.umx_t.address import Address
from semq.umx_t.locator import LK1
from semq.umx_t.records import Answer, Inquiry

Done = Callable[[bool], None]
MISSED_MAX = 100  # bound of ``missed``, because a peer may name any number of stores


class Stores:
    """The store of this process, and the retired stores."""

    def __init__(self, core: Core, recovered: Recovered) -> None:
        self.core = core
        self.own_store: StoreName = core.own_store.semq_id, core.own_store.semq_db_id
        self.retired: set[StoreName] = {row.name for row in recovered.retired}
        #: number of records about copies in other stores that are not retired, by store
        self.missed: dict[StoreName, int] = {}

    def is_here(self, lk1: LK1) -> bool:
        """Whether a locator names this store."""
        return lk1[:2] == self.own_store

    def is_retired(self, lk1: LK1) -> bool:
        """Whether the store of a copy is retired. If not, count the record in ``missed``."""
        name = lk1[:2]
        if name in self.retired:
            return True
        if name in self.missed or len(self.missed) < MISSED_MAX:
            self.missed[name] = self.missed.get(name, 0) + 1
        return False

    def receive_acks(self, acks: Sequence[Ack]) -> None:
        """Answer Acks about copies in retired stores. Those about other stores get no answer, so that they are
        repeated.
        """
        for ack in acks:
            if self.is_retired(ack.lk1):
                self.core.mail.add(*reack(ack))

    def answer_custody(self, source: Address, inquiries: Sequence[tuple[LK1, Inquiry]]) -> None:
        """Answer inquiries of senders about copies in other stores: GONE for a retired store, otherwise UNAVAIL."""
        for lk1, record in inquiries:
            answer = Answer.GONE if self.is_retired(lk1) else Answer.UNAVAIL
            self.core.mail.add(*answered(source, record, answer, lk1))

    def retire(self, name: StoreName, by: str, why: str, done: Done, failed: Failed) -> None:
        """Retire a store. ``done`` gets whether it was retired before. ``failed`` gets StoreInUse for the store of this
        process."""
        self.core.post(self._retire(RetiredStore(*name, by, why), done), failed=failed)

    @work
    def _retire(self, row: RetiredStore, done: Done) -> Steps:
        unit = yield NO_NEEDS
        if row.name == self.own_store:
            raise StoreInUse(store=f"{row.semq_id}.{row.semq_db_id}")
        unit.rare_changes.append(row)
        yield COMMITTED
        was_retired = row.name in self.retired
        self.retired.add(row.name)
        self.missed.pop(row.name, None)
        done(was_retired)
