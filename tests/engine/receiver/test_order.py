"""Orders that wait for a position are freed once, at a cost that depends only on the number of freed orders."""

from typing import Any

from semq.engine.receiver.order import BlockedOrders
from semq.store.rows import InStreamKey
from semq.umx_t.address import Address, NodeType
from semq.umx_t.locator import Pos, Store

SOURCE = Store(*Address(NodeType.LOCAL, "10008")[:2])
STREAM = InStreamKey(SOURCE, 7)
COUNT = 100_000


class CountedSid(int):
    """A sid whose class counts comparisons."""

    comparisons = 0

    def __lt__(self, other: Any) -> bool:
        CountedSid.comparisons += 1
        return int(self) < int(other)

    def __ge__(self, other: Any) -> bool:
        CountedSid.comparisons += 1
        return int(self) >= int(other)


def blocked(*sids: int) -> BlockedOrders:
    orders = BlockedOrders()
    for sid in sids:
        orders.add((SOURCE, f"k{sid}"), Pos(7, CountedSid(sid)))
    return orders


def freed_keys(orders: BlockedOrders, floor: int, closed: int | None = None) -> list[str]:
    return [name for _, name in orders.freed(STREAM, floor, closed)]


def test_a_floor_frees_the_orders_below_it_once() -> None:
    orders = blocked(5, 3, 9)
    assert freed_keys(orders, 5) == ["k3"]
    assert freed_keys(orders, 6) == ["k5"]
    assert freed_keys(orders, 6) == []
    assert freed_keys(orders, 10) == ["k9"]
    assert orders.freed(InStreamKey(SOURCE, 8), 10, 10) == []


def test_the_end_of_an_incarnation_frees_orders_that_wait_for_positions_never_used() -> None:
    orders = blocked(5, 3, 9)
    assert freed_keys(orders, 0, 6) == ["k9"]
    orders.add((SOURCE, "late"), Pos(7, 8))  # its work was decided before the incarnation was known to be closed
    assert freed_keys(orders, 0, 6) == ["late"]
    assert freed_keys(orders, 4, 6) == ["k3"]
    assert freed_keys(orders, 6, 6) == ["k5"]


def test_the_cost_of_a_rising_floor_depends_only_on_the_freed_orders() -> None:
    orders = blocked(*range(COUNT))
    assert freed_keys(orders, 0, COUNT) == []
    CountedSid.comparisons = 0
    for floor in range(1, 1001):
        assert freed_keys(orders, floor, COUNT) == [f"k{floor - 1}"]
    assert CountedSid.comparisons < 1000 * 60
