"""The store in memory refuses a whole unit if Postgres would refuse one of its changes."""

from collections.abc import Callable

import pytest

from semq.store.postgres.errors import DecisionFailed
from semq.store.rows import InStream, Recorded, Slot
from semq.store.unit import Unit
from semq.umx_t.status import Arrival, Outcome, SaveFwd, SendStatus
from tests.memory_store.store import MemoryStore
from tests.memory_store.test_store import (
    BODY,
    IN,
    REFUSED,
    SEEN,
    STREAM,
    FunctionWork,
    change,
    do,
    loaded,
    own,
    put,
    received,
    relayed,
)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def insert_without_record(unit: Unit) -> None:
    unit.insert_pending(received(9), BODY)


def lower_next_sid(unit: Unit) -> None:
    unit.out_streams[STREAM].next_sid = 0
    unit.changed_out_streams.add(STREAM)


def lower_floor(unit: Unit) -> None:
    unit.in_streams[IN] = InStream(IN, 1, floor=2)
    unit.changed_in_streams.add(IN)


def change_with_stale_status(unit: Unit) -> None:
    unit.change_outbound(unit.outbound[1], SendStatus.SS_ACK)


def change_unknown_row(unit: Unit) -> None:
    unit.outbound[99] = own(99)
    unit.change_outbound(unit.outbound[99], SendStatus.SS_INIT)


REFUSED_CHANGES: list[tuple[str, Callable[[Unit], None]]] = [
    ("compare-and-set", change_with_stale_status),
    ("compare-and-set", change_unknown_row),
    ("delivered", change(outcome=Outcome.DELIVERED)),
    ("delivered", change(ss_status=SendStatus.SS_ACK2)),
    ("lost is void", change(lost=True)),
    ("tb_0031 key", lambda unit: unit.insert_outbound(own(1, sid=8), BODY)),
    ("position", lambda unit: unit.insert_outbound(own(8, sid=1), BODY)),
    ("class 3 has a position", lambda unit: unit.insert_outbound(own(8, sid=-1), BODY)),
    ("class 3 has a position", lambda unit: unit.insert_outbound(own(8, save_fwd=SaveFwd.DROP), BODY)),
    ("ident", lambda unit: unit.insert_outbound(relayed(8, reason=None, sid=3), BODY)),
    ("token", lambda unit: unit.register_token("t", own(8).lk0, b"")),
    ("ledger", lambda unit: unit.record(Slot(IN, 5), Recorded(Arrival.RECV))),
    ("seen", lambda unit: unit.note_seen(SEEN, REFUSED)),
    ("positions rise", lower_next_sid),
    ("floors rise", lower_floor),
    ("tb_0030 key", lambda unit: unit.insert_pending(received(5), BODY)),
    ("one transaction for ledger and row", insert_without_record),
    ("one transaction for ledger and row", lambda unit: unit.insert_pending(received(9, save_fwd=SaveFwd.STORE), BODY)),
]


@pytest.mark.parametrize(
    ("guard", "decide"), REFUSED_CHANGES, ids=[f"{n}-{guard}" for n, (guard, _) in enumerate(REFUSED_CHANGES)]
)
def test_a_unit_that_postgres_would_refuse_is_refused_as_a_whole(
    store: MemoryStore, guard: str, decide: Callable[[Unit], None]
) -> None:
    put(store, own(1, ss_status=SendStatus.SS_SENT), received(5))
    do(store, lambda unit: unit.register_token("t", own(1).lk0, b""))
    do(store, lambda unit: unit.note_seen(SEEN, REFUSED))
    copy = relayed(3)
    copy.lk0 = relayed(8).lk0
    put(store, copy)

    def raise_floor(unit: Unit) -> None:
        unit.raise_floor(unit.in_streams.setdefault(IN, InStream(IN, 1)), 4)

    do(store, raise_floor)
    before = store.tables.snapshot()
    store.post(FunctionWork(decide, outbound={1}, out_streams={STREAM}))
    store.begin()
    with pytest.raises(DecisionFailed, match=f"'{guard}'"):
        store.commit()
    after = store.tables.snapshot()
    after.owner = before.owner
    assert after == before
    assert store.idle


def test_a_copy_may_be_deleted_and_stored_again_in_one_unit(store: MemoryStore) -> None:
    put(store, relayed(1))
    again = relayed(2)
    again.lk0 = relayed(1).lk0

    def decide(unit: Unit) -> None:
        unit.delete_outbound(unit.relayed[str(again.lk0)])
        unit.insert_outbound(again, BODY)

    do(store, decide, relayed={str(again.lk0)})
    assert loaded(store, relayed={str(again.lk0)}).relayed[str(again.lk0)].object_id == 2


def test_a_final_outcome_does_not_change(store: MemoryStore) -> None:
    put(store, own(1, ss_status=SendStatus.SS_SENT, outcome=Outcome.REJECTED))
    do(store, change(reason=("SEMQ-1209", "words")), outbound={1})
    store.post(FunctionWork(change(outcome=Outcome.LOST, void=True), outbound={1}))
    store.begin()
    with pytest.raises(DecisionFailed, match="'final'"):
        store.commit()
