"""A burst of documents: while the link has room, each document is marked as sent in the commit that accepts it.
Transactions of a channel: their documents are accepted together, or refused together without a trace.
"""

import pytest
from msgspec.structs import replace

from semq.engine.errors import DocumentTooLarge
from semq.engine.ports import Submission
from semq.store.unit import Unit
from semq.umx_t.address import parse_address
from semq.umx_t.agreement import Terms
from semq.umx_t.envelope import Attributes
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


def test_the_documents_of_a_refused_transaction_do_not_count_for_the_quota() -> None:
    trio = Trio(replace(SETTINGS, quota_rows_per_partner=2))
    node = trio.a
    for _ in range(3):
        documents = [
            Submission(parse_address("56001"), Attributes(), body, node.accepted.append, node.refused.append)
            for body in (b"x", bytes(SETTINGS.max_document_bytes + 1))
        ]
        for document in documents:
            document.is_whole = True
        with pytest.raises(DocumentTooLarge):
            node.engine.submit(documents)
    node.refused.clear()
    node.send(b"x")
    trio.settle()
    assert node.refused == []
    assert trio.b.app.payloads == [b"x"]


def test_a_document_that_is_refused_for_its_size_does_not_use_up_the_rate() -> None:
    trio = Trio()
    trio.a.engine.partners.terms["1.56001"] = (Terms(per_minute=1, bytes_max=2),)
    for body in (b"too large", b"ok"):
        trio.a.send(body)
        trio.settle()
    assert [type(error) for error in trio.a.refused] == [DocumentTooLarge]
    assert trio.b.app.payloads == [b"ok"]
