"""Documents that wait for a missing predecessor cause no work when other documents are delivered, however many wait."""

from collections.abc import Iterator
from typing import Any

from semq.engine.receiver.order import Order, OrderId
from semq.errors import BadInput
from semq.store.work import NO_NEEDS, Steps, work
from semq.umx_t.address import Address, NodeType
from semq.umx_t.locator import Pos, Store
from tests.flows.trio import Trio

COUNT = 100_000
LOOKUPS_MAX = 20  # orders that may be looked up because of one document with an order key


class CountingOrders(dict[OrderId, Order]):
    """A table of orders that counts the orders looked up in it."""

    lookups = 0

    def get(self, key: OrderId, default: Any = None) -> Any:
        self.lookups += 1
        return super().get(key, default)

    def setdefault(self, key: OrderId, default: Any = None) -> Any:
        self.lookups += 1
        return super().setdefault(key, default)

    def __contains__(self, key: object) -> bool:
        self.lookups += 1
        return super().__contains__(key)

    def __iter__(self) -> Iterator[OrderId]:
        self.lookups += len(self)
        return super().__iter__()

    def items(self) -> Any:
        self.lookups += len(self)
        return super().items()

    def values(self) -> Any:
        self.lookups += len(self)
        return super().values()


def blocked() -> tuple[Trio, CountingOrders]:
    """Return a trio in which ``COUNT`` orders of A wait at B for a predecessor that does not arrive."""
    trio = Trio()
    handover = trio.b.engine.handover
    source = Store(*Address(NodeType.LOCAL, "10008")[:2])
    orders = CountingOrders({(source, f"k{n}"): Order(blocked=n + 1) for n in range(COUNT)})
    handover.orders = orders
    for n, key in enumerate(dict.keys(orders)):
        handover._blocked.add(key, Pos(0xA001, 1_000 + n))
    orders.lookups = 0
    return trio, orders


def test_feeding_a_user_reads_no_blocked_order() -> None:
    trio, orders = blocked()
    for _ in range(1000):
        trio.b.engine.handover.feed("")
    assert trio.b.store.idle
    assert orders.lookups == 0


def test_documents_without_an_order_key_look_up_no_order() -> None:
    trio, orders = blocked()
    trio.a.send(*[b"%d" % n for n in range(50)])
    trio.settle()
    trio.later(1)
    assert len(trio.b.app.deliveries) == 50
    assert orders.lookups == 0
    trio.a.send(b"in an order", order_key="another")
    trio.settle()
    assert len(trio.b.app.deliveries) == 51
    assert 0 < orders.lookups <= LOOKUPS_MAX


def test_an_answer_that_cannot_be_stored_affects_its_own_order_only() -> None:
    trio, orders = blocked()
    trio.b.app.acks = False
    trio.a.send(b"x", order_key="another")
    trio.settle()
    (delivery,) = trio.b.app.held
    trio.b.app.held.clear()
    orders.lookups = 0

    @work
    def refuse() -> Steps:
        yield NO_NEEDS
        raise BadInput("The store refuses what was decided.")

    trio.b.engine.answers.finish([delivery.bref])
    (answer,) = trio.b.store._queue
    trio.b.store._queue[0] = refuse()
    trio.b.store._queue[0].on_failure = answer.on_failure
    trio.b.store.run()
    trio.settle()
    assert [given.payload for given in trio.b.app.deliveries] == [b"x", b"x"]
    assert trio.b.app.deliveries[1].redelivered
    assert orders.lookups <= LOOKUPS_MAX
