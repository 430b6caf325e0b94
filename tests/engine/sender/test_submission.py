"""A burst of documents: while the link has room, each document is marked as sent in the commit that accepts it."""

from semq.store.unit import Unit
from tests.flows.trio import SETTINGS, Trio
from tests.memory_store.store import MemoryStore

COUNT = 3000


def test_a_burst_is_sent_without_a_change_of_its_rows() -> None:
    trio = Trio()
    written: list[Unit] = []

    def write(unit: Unit, store: MemoryStore = trio.a.store) -> None:
        written.append(unit)
        MemoryStore.write(store, unit)

    trio.a.store.write = write  # type: ignore[method-assign]
    for node in trio.nodes:
        assert node.up is not None
        assert node.down is not None
        node.up.room = node.down.room = COUNT
    trio.b.app.places = COUNT
    trio.a.send(*[b"x"] * COUNT)
    trio.settle()
    assert len(trio.b.app.deliveries) == COUNT
    assert sum(len(unit.changed_outbound) for unit in written) == 0
    assert not any(query for unit in written for query in unit.found if "Unsent" in type(query).__name__)


def test_the_credit_of_a_node_at_the_hub_is_at_least_the_flight_of_a_sender() -> None:
    assert SETTINGS.credit_messages >= SETTINGS.flight
