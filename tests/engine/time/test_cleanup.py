"""Cleanup: the unit that meets the last condition of a row deletes it; the cleaner deletes the remaining rows."""

from msgspec.structs import replace

from semq.store.unit import Unit
from semq.umx_t.status import AckStatus, AppStatus, Outcome, SendStatus
from tests.flows.trio import SETTINGS, Trio
from tests.memory_store.store import MemoryStore
from tests.memory_store.tables import Tables, copy_outbound, copy_pending

NEVER_CLEANS = replace(SETTINGS, clean_rows=0)
COUNT, BATCH = 40, 7


def test_finished_documents_leave_no_row_for_the_cleanup() -> None:
    trio = Trio(NEVER_CLEANS)
    trio.a.send(*[b"%d" % n for n in range(COUNT)])
    trio.settle()  # no time passes, so the cleaner does not run
    assert len(trio.b.app.deliveries) == COUNT
    assert trio.a.rows["tb_0031"] == trio.b.rows["tb_0030"] == 0
    trio.later(5)
    assert [node.engine.cleaner.next_due for node in trio.nodes] == [None, None]


def test_documents_stored_at_the_hub_and_given_late_leave_no_row_for_the_cleanup() -> None:
    trio = Trio(NEVER_CLEANS)
    trio.cut(trio.b)
    trio.b.app.places = 0
    trio.a.send(*[b"%d" % n for n in range(COUNT)], order_key="k")
    trio.settle()
    trio.connect(trio.b)
    trio.settle()
    assert trio.b.rows["tb_0030"] == COUNT  # all are acknowledged, and none was given to an application
    trio.b.app.places = COUNT
    trio.b.engine.handover.feed("")
    trio.later(2)
    assert [len(trio.b.app.deliveries), trio.a.rows["tb_0031"], trio.held, trio.b.rows["tb_0030"]] == [COUNT, 0, 0, 0]


def test_a_row_that_its_unit_deletes_is_not_written_before() -> None:
    trio = Trio(NEVER_CLEANS)
    written = _units_written(trio)
    trio.a.send(b"x")
    trio.settle()
    ended = [deletion for unit in written for deletion in unit.deleted_outbound.values()]
    assert len(ended) == 1
    assert not any(unit.changed_outbound.keys() & unit.deleted_outbound.keys() for unit in written)
    assert sum(len(unit.deleted_pending) for unit in written) == 1


def test_remaining_rows_are_deleted_in_batches_after_a_restart() -> None:
    """A node of an older version may have left rows that have ended and are not deleted."""
    trio = Trio(replace(SETTINGS, clean_rows=BATCH))
    trio.b.app.acks = False
    trio.lose = lambda wire, frame: wire is trio.a.down  # A receives no receipts
    trio.a.send(*[b"%d" % n for n in range(COUNT)])
    trio.settle()
    _end_by_hand(trio.a.store.tables, trio.b.store.tables)
    for node in trio.nodes:
        node.crash()
    written = _units_written(trio)
    trio.later(5)
    assert (trio.a.rows["tb_0031"], trio.b.rows["tb_0030"]) == (0, 0)
    assert max(len(unit.deleted_outbound) + len(unit.deleted_pending) for unit in written) == BATCH


def test_only_deleted_rows_count_as_cleaned() -> None:
    """After a restart, the cleaner looks at refused documents, too, and keeps them for the operator."""
    trio = Trio(replace(SETTINGS, clean_rows=BATCH))
    trio.b.engine.core.settings = replace(trio.settings, max_document_bytes=1)
    trio.a.send(b"too large")
    trio.settle()
    trio.a.crash()
    trio.later(5)
    assert trio.a.engine.cleaner.next_due is None
    assert (trio.a.rows["tb_0031"], trio.a.engine.core.counters.counts.get("cleaned", 0)) == (1, 0)


def _units_written(trio: Trio) -> list[Unit]:
    """Return a list to which each unit is added that the local nodes write from now on."""
    written: list[Unit] = []
    for node in trio.nodes:

        def write(unit: Unit, store: MemoryStore = node.store) -> None:
            written.append(unit)
            MemoryStore.write(store, unit)

        node.store.write = write  # type: ignore[method-assign]
    return written


def _end_by_hand(sender: Tables, receiver: Tables) -> None:
    """Give all rows the states of finished messages."""
    for row in map(copy_outbound, list(sender.outbound.values())):
        row.ss_status, row.outcome = SendStatus.SS_ACK2, Outcome.DELIVERED
        sender.outbound[row.object_id] = row
    for pending in map(copy_pending, list(receiver.pending.values())):
        pending.app_status, pending.s_ack_status = AppStatus.DONE, AckStatus.AS_ACK
        receiver.pending[pending.bref] = pending
