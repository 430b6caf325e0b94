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
SEARCHES_MAX = 20  # searches for orders that one document with an order key may cause


class CountingOrders(dict[OrderId, Order]):
    """A table of orders that counts the searches in it."""

    searches = 0

    def get(self, key: OrderId, default: Any = None) -> Any:
        self.searches += 1
        return super().get(key, default)

    def setdefault(self, key: OrderId, default: Any = None) -> Any:
        self.searches += 1
        return super().setdefault(key, default)

    def __contains__(self, key: object) -> bool:
        self.searches += 1
        return super().__contains__(key)

    def __iter__(self) -> Iterator[OrderId]:
        self.searches += len(self)
        return super().__iter__()

    def items(self) -> Any:
        self.searches += len(self)
        return super().items()

    def values(self) -> Any:
        self.searches += len(self)
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
    orders.searches = 0
    return trio, orders


def test_feeding_a_user_reads_no_blocked_order() -> None:
    trio, orders = blocked()
    for _ in range(1000):
        trio.b.engine.handover.feed("")
    assert trio.b.store.idle
    assert orders.searches == 0


def test_documents_without_a_waiting_order_are_delivered_without_a_search() -> None:
    trio, orders = blocked()
    trio.a.send(*[b"%d" % n for n in range(50)])
    trio.settle()
    trio.later(1)
    assert len(trio.b.app.deliveries) == 50
    assert orders.searches == 0
    trio.a.send(b"in an order", order_key="another")
    trio.settle()
    assert len(trio.b.app.deliveries) == 51
    assert 0 < orders.searches <= SEARCHES_MAX


def test_an_answer_that_cannot_be_stored_affects_its_own_order_only() -> None:
    trio, orders = blocked()
    trio.b.app.acks = False
    trio.a.send(b"x", order_key="another")
    trio.settle()
    (delivery,) = trio.b.app.held
    trio.b.app.held.clear()
    orders.searches = 0

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
    assert orders.searches <= SEARCHES_MAX
