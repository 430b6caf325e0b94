"""The store in memory."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from semq.errors import BadInput
from semq.store.broker.operations import OrderlyEnd
from semq.store.postgres.errors import StoreFenced, StoreUnavailable
from semq.store.rows import (
    InStream,
    InStreamKey,
    OrderKey,
    Outbound,
    OutStream,
    OutStreamKey,
    Pending,
    Recorded,
    Slot,
    Stored,
    SubmissionRefusal,
    Submitted,
)
from semq.store.unit import (
    DoneRows,
    ExpiredRows,
    FirstInOrder,
    Needs,
    Query,
    StreamState,
    StreamsTo,
    SubmittedRows,
    Unfinished,
    Unit,
    Unsent,
    Unsettled,
    Waiting,
    first_id,
)
from semq.store.work import COMMITTED, Steps, Work
from semq.umx_t.address import Address
from semq.umx_t.locator import LK0, LK1, Pos, Store
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, Outcome, SaveFwd, SendStatus
from tests.memory_store import store as memory
from tests.memory_store.store import CommitFault, MemoryStore
from tests.memory_store.tables import Tables

HERE, THERE = Store(1, "a"), Address(1, "b")
SEEN, REFUSED = LK0(*HERE, 1, 1), Recorded(Arrival.REJ, reason=("SEMQ-5001", "cannot open"))
STREAM, IN = OutStreamKey("1.b", 7), InStreamKey(Store(1, "c"), 9)


class FunctionWork(Work):
    """Work made of a function; records its result."""

    def __init__(self, decide: Callable[[Unit], Any] = lambda unit: None, **needs: Any) -> None:
        self._change = decide
        self._wanted = Needs(**needs)
        self.decided = 0
        self.results: list[Exception | None] = []
        super().__init__(self._run, self.results.append)

    def _run(self) -> Steps:
        unit = yield self._wanted
        self.decided += 1
        self._change(unit)
        yield COMMITTED
        self.results.append(None)


def own(object_id: int, sid: int | None = None, **facts: Any) -> Outbound:
    facts = {"save_fwd": SaveFwd.MUST, "ack2": True, "sid": object_id if sid is None else sid, **facts}
    return Outbound(object_id, Direction.OWN, LK0(*HERE, 7, object_id), THERE, **facts)


def relayed(object_id: int, **facts: Any) -> Outbound:
    return Outbound(
        object_id, Direction.RELAYED, LK0(1, "c", 1, 1, 9, object_id), THERE, SaveFwd.STORE, ack2=False, **facts
    )


def received(bref: int, sid: int | None = None, **facts: Any) -> Pending:
    must: dict[str, Any] = {"save_fwd": SaveFwd.MUST, "ack2": True}
    facts = {"target": Address(1, "a"), "status": Arrival.RECV, **must, **facts}
    return Pending(bref, LK0(*IN.store, IN.inc, bref), bref if sid is None else sid, **facts)


BODY = Stored(b"envelope", b"payload")


def put(store: MemoryStore, *rows: Outbound | Pending) -> None:
    """Write rows as an engine would."""

    def decide(unit: Unit) -> None:
        for row in rows:
            if isinstance(row, Outbound):
                unit.insert_outbound(row, BODY)
                if row.sid >= 0:
                    key = OutStreamKey(row.dest, row.lk0.inc)
                    stream = unit.out_streams.setdefault(key, OutStream(key))
                    stream.next_sid = max(stream.next_sid, row.sid + 1)
                    unit.changed_out_streams.add(key)
            else:
                unit.insert_pending(row, BODY)
                if row.is_class3:
                    unit.record(row.slot, Recorded(row.status))
                else:
                    unit.note_seen(row.lk0, Recorded(Arrival.RECV))

    keys = {OutStreamKey(row.dest, row.lk0.inc) for row in rows if isinstance(row, Outbound)}
    do(store, decide, out_streams=keys)


def do(store: MemoryStore, decide: Callable[[Unit], Any], **needs: Any) -> FunctionWork:
    """Run work to its end, and return it."""
    job = FunctionWork(decide, **needs)
    store.post(job)
    store.run_all()
    return job


def change(before: SendStatus = SendStatus.SS_SENT, **facts: Any) -> Callable[[Unit], None]:
    """Return a decision that changes these fields of row 1, whose stored status is ``before``."""

    def decide(unit: Unit) -> None:
        row = unit.outbound[1]
        for name, value in facts.items():
            setattr(row, name, value)
        unit.change_outbound(row, before)

    return decide


def loaded(store: MemoryStore, **needs: Any) -> Unit:
    """Return a copy of a unit with these rows."""
    units: list[Unit] = []
    do(store, lambda unit: units.append(deepcopy(unit)), **needs)
    return units[0]


def ids(rows: list[Any]) -> list[int]:
    return [getattr(row, "object_id", None) or row.bref for row in rows]


def query_rows(store: MemoryStore, query: Query) -> list[Any]:
    return loaded(store, queries={query}).found[query]


def _add_name(seen: list[str], name: str, unit: Unit) -> None:
    seen.append(name)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


# ------------------------------------------------------------------------------------------ the phases


def test_work_is_notified_in_posted_order_after_the_commit(store: MemoryStore) -> None:
    seen: list[str] = []
    jobs = [FunctionWork(partial(_add_name, seen, name)) for name in "abc"]
    for job in jobs:
        store.post(job)
    assert store.phase == "begin"
    store.begin()
    assert (store.phase, seen) == ("commit", ["a", "b", "c"])
    store.commit()
    assert store.phase == "deliver"
    assert [job.results for job in jobs] == [[], [], []]
    assert not store.idle
    store.deliver()
    assert [job.results for job in jobs] == [[None], [None], [None]]
    assert store.phase == ""
    assert store.idle


def test_nothing_is_written_before_the_commit(store: MemoryStore) -> None:
    store.post(FunctionWork(lambda unit: unit.insert_outbound(own(1), BODY)))
    store.begin()
    assert not store.tables.outbound
    store.commit()
    assert ids(list(store.tables.outbound.values())) == [1]


def test_a_unit_takes_as_many_pieces_of_work_as_group_returns(store: MemoryStore) -> None:
    small = MemoryStore(store.tables, group=lambda waiting: waiting // 2)
    jobs = [FunctionWork() for _ in range(3)]
    for job in jobs:
        small.post(job)
    small.run()
    assert [job.decided for job in jobs] == [1, 0, 0]
    small.run_all()
    small.run()
    assert [job.decided for job in jobs] == [1, 1, 1]


def test_work_of_one_unit_sees_what_earlier_work_changed(store: MemoryStore) -> None:
    put(store, own(1))
    seen: list[int] = []
    first = FunctionWork(change(before=SendStatus.SS_INIT, att=5), outbound={1})
    second = FunctionWork(lambda unit: seen.append(unit.outbound[1].att), outbound={1})
    for job in (first, second):
        store.post(job)
    store.run()
    assert seen == [5]


def test_refused_work_is_left_out_and_the_other_work_is_decided_again(store: MemoryStore) -> None:
    def refuse(unit: Unit) -> None:
        unit.insert_outbound(own(2), BODY)
        raise BadInput("no")

    first = FunctionWork(lambda unit: unit.insert_outbound(own(1), BODY))
    bad, last = FunctionWork(refuse), FunctionWork()
    for job in (first, bad, last):
        store.post(job)
    store.run()
    assert set(store.tables.outbound) == {1}
    assert isinstance(bad.results[0], BadInput)
    assert (first.decided, bad.decided, last.decided) == (2, 1, 1)
    assert first.results == last.results == [None]


def test_a_broken_connection_writes_nothing(store: MemoryStore) -> None:
    job = FunctionWork(lambda unit: unit.insert_outbound(own(1), BODY))
    store.post(job)
    store.run(CommitFault.ROLLED_BACK)
    assert isinstance(job.results[0], StoreUnavailable)
    assert not store.tables.outbound


def test_after_a_lost_answer_the_work_fails_although_its_rows_are_written(store: MemoryStore) -> None:
    job = FunctionWork(lambda unit: unit.insert_outbound(own(1), BODY))
    store.post(job)
    store.run(CommitFault.ANSWER_LOST)
    assert isinstance(job.results[0], StoreUnavailable)
    assert set(store.tables.outbound) == {1}


def test_when_the_store_is_lost_all_waiting_and_later_work_fails() -> None:
    store = MemoryStore(group=lambda waiting: 1)
    jobs = [
        FunctionWork(lambda unit: unit.insert_outbound(own(1), BODY)),
        FunctionWork(lambda unit: unit.insert_outbound(own(2), BODY)),
    ]
    for job in jobs:
        store.post(job)
    store.run(CommitFault.ANSWER_LOST)
    assert all(isinstance(job.results[0], StoreUnavailable) for job in jobs)
    assert isinstance(do(store, lambda unit: None).results[0], StoreUnavailable)
    assert (jobs[1].decided, store.is_lost, store.idle) == (0, True, True)


def test_work_posted_after_a_takeover_fails_with_the_reason(store: MemoryStore) -> None:
    MemoryStore(store.tables)
    do(store, lambda unit: unit.insert_outbound(own(1), BODY))
    again: list[FunctionWork] = []

    class PostsAgain(FunctionWork):
        def abandon(self, error: Exception) -> None:
            super().abandon(error)
            again.append(FunctionWork())
            store.post(again[-1])

    jobs = [PostsAgain(), PostsAgain()]
    store.post(jobs[0])
    store.post(jobs[1], later=True)
    assert ([job.results for job in jobs], store.phase) == ([[], []], "deliver")  # not in the call that posts the work
    store.deliver()
    assert [type(job.results[0]) for job in jobs] == [StoreFenced, StoreFenced]
    assert [work.results for work in again] == [[], []]
    store.deliver()
    assert ([type(work.results[0]) for work in again], store.idle) == ([StoreFenced, StoreFenced], True)


def test_deferred_work_shares_the_unit_of_the_next_urgent_work(store: MemoryStore) -> None:
    seen: list[str] = []
    store.post(FunctionWork(partial(_add_name, seen, "a")), later=True)
    assert (store.phase, store.is_waiting, store.idle) == ("", True, False)
    store.post(FunctionWork(partial(_add_name, seen, "b")))
    store.post(FunctionWork(partial(_add_name, seen, "c")), later=True)
    assert (store.phase, store.is_waiting) == ("begin", False)
    store.begin()
    assert seen == ["a", "b", "c"]
    store.post(FunctionWork(partial(_add_name, seen, "d")), later=True)
    store.commit()
    store.deliver()
    assert (store.phase, store.is_waiting) == ("", True)
    store.make_due()
    assert store.phase == "begin"
    store.run()
    assert (seen, store.idle, store.is_waiting) == (["a", "b", "c", "d"], True, False)


def test_due_work_that_does_not_fit_into_a_unit_is_done_in_the_next(store: MemoryStore) -> None:
    small = MemoryStore(store.tables, group=lambda waiting: 1)
    jobs = [FunctionWork(), FunctionWork(), FunctionWork()]
    for job, later in zip(jobs, (True, False, True), strict=True):
        small.post(job, later=later)
    while small.phase:
        small.run()
    assert [job.results for job in jobs] == [[None], [None], [None]]


def test_work_decides_again_if_its_first_attempt_was_rolled_back(store: MemoryStore) -> None:
    job = FunctionWork(lambda unit: unit.insert_outbound(own(1), BODY))
    store.post(job)
    store.run(CommitFault.REDONE)
    assert (job.decided, job.results) == (2, [None])


def test_a_writer_whose_store_was_taken_over_writes_nothing(store: MemoryStore) -> None:
    successor = MemoryStore(store.tables)
    job = do(store, lambda unit: unit.insert_outbound(own(1), BODY))
    assert isinstance(job.results[0], StoreFenced)
    put(successor, own(1))
    assert set(store.tables.outbound) == {1}


# --------------------------------------------------------------------------------------------- loading


def test_loaded_rows_are_copies(store: MemoryStore) -> None:
    put(store, own(1), received(2))
    unit = loaded(store, outbound={1, 5}, pending={2, 5}, out_streams={STREAM}, bodies={1, 5})
    assert set(unit.outbound) == {1}
    assert set(unit.pending) == {2}
    assert unit.bodies == {1: BODY}
    unit.outbound[1].att = unit.pending[2].deliveries = unit.out_streams[STREAM].next_sid = 99
    again = loaded(store, outbound={1}, pending={2}, out_streams={STREAM})
    assert (again.outbound[1].att, again.pending[2].deliveries, again.out_streams[STREAM].next_sid) == (0, 0, 2)


def test_rows_of_every_table_are_found_by_their_keys(store: MemoryStore) -> None:
    order, slot = OrderKey("1.b", "k"), Slot(IN, 3)

    def decide(unit: Unit) -> None:
        unit.register_token("t", own(1).lk0, b"d")
        unit.last_pos[order] = Pos(7, 1)
        unit.changed_last_pos.add(order)
        unit.in_streams[IN] = InStream(IN, 4)
        unit.changed_in_streams.add(IN)
        unit.record(slot, Recorded(Arrival.VOID))
        unit.note_seen(SEEN, REFUSED)
        unit.broker.append(OrderlyEnd())

    do(store, decide)
    wanted = {"tokens": {"t", "x"}, "last_pos": {order, OrderKey("", "")}, "in_streams": {IN}, "recorded": {slot}}
    unit = loaded(store, **wanted, seen={str(SEEN), "v"})
    assert {token: row.digest for token, row in unit.tokens.items()} == {"t": b"d"}
    assert unit.last_pos == {order: Pos(7, 1)}
    assert unit.in_streams == {IN: InStream(IN, 4)}
    assert unit.recorded == {slot: Recorded(Arrival.VOID)}
    assert unit.seen == {str(SEEN): REFUSED}
    assert store.tables.broker == [OrderlyEnd()]


def test_a_relayed_row_is_one_object_however_it_is_found(store: MemoryStore) -> None:
    put(store, relayed(1))
    ident = str(relayed(1).lk0)
    query = Unsent("1.b", 0, 9, source="1.c")
    unit = loaded(store, relayed={ident, "other"}, outbound={1}, queries={query})
    assert unit.relayed[ident] is unit.outbound[1]
    assert next(unit.outbound_found(query)) is unit.outbound[1]
    do(store, lambda unit: unit.delete_outbound(unit.relayed[ident]), relayed={ident})
    assert not loaded(store, relayed={ident}).relayed
    assert not store.tables.bodies


# --------------------------------------------------------------------------------------------- queries


def test_unsent_rows_are_found_within_their_limits(store: MemoryStore) -> None:
    put(store, own(1, size=5), own(2, held=True), own(3, ss_status=SendStatus.SS_SENT), own(4, size=5))
    put(store, relayed(5, size=5), own(6, outcome=Outcome.CANCELLED), own(7, sid=0, size=5))
    assert ids(query_rows(store, Unsent("1.b", 0, 9))) == [1, 4, 7]
    assert ids(query_rows(store, Unsent("1.b", 1, 2))) == [4, 7]
    assert ids(query_rows(store, Unsent("1.b", 0, 9, payloads_bytes_max=6))) == [1, 4]
    assert query_rows(store, Unsent("1.z", 0, 9)) == []
    assert set(loaded(store, queries={Unsent("1.b", 4, 1)}).bodies) == {7}


def test_unsettled_rows_are_found_within_their_limits(store: MemoryStore) -> None:
    ends = {"outcome": Outcome.DELIVERED, "ss_status": SendStatus.SS_ACK2}
    put(store, own(1), own(2, ss_status=SendStatus.SS_SENT), own(3, ss_status=SendStatus.SS_ACK), own(4, **ends))
    assert ids(query_rows(store, Unsettled(0, 9, 9))) == [2, 3]
    assert ids(query_rows(store, Unsettled(3, 3, 9))) == [3]
    assert ids(query_rows(store, Unsettled(0, 9, 1))) == [2]


def test_expired_rows_are_found_except_markers_stored_copies_and_sent_rows_of_class_2(store: MemoryStore) -> None:
    put(
        store,
        own(1),
        own(2, expires_at=5),
        own(3, expires_at=6),
        own(4, expires_at=5, void=True),
        relayed(5, expires_at=1),
        own(6, -1, expires_at=5, save_fwd=SaveFwd.STORE, ss_status=SendStatus.SS_SENT),
    )
    assert ids(query_rows(store, ExpiredRows(5, 9))) == [2]
    assert ids(query_rows(store, ExpiredRows(6, 1))) == [2]


def test_unfinished_and_waiting_rows_are_found(store: MemoryStore) -> None:
    acknowledged = {"p_ack_status": AckStatus.AS_ACK, "s_ack_status": AckStatus.AS_ACK}
    done = {"app_status": AppStatus.DONE}
    put(store, received(1), received(2, **acknowledged, **done), received(3, **done), received(4, **acknowledged))
    put(store, received(5, target=Address(1, "a", "buyer")), received(6, -1, save_fwd=SaveFwd.DROP, ack2=False))
    assert ids(query_rows(store, Unfinished(0, 9, 9))) == [1, 3, 4, 5, 6]
    assert ids(query_rows(store, Unfinished(2, 4, 1))) == [3]
    assert ids(query_rows(store, Waiting("", "1.c", 0, 0, 9))) == [1, 4, 6]
    assert ids(query_rows(store, Waiting("", "1.c", 0, 1, 1))) == [4]
    assert ids(query_rows(store, Waiting("buyer", "1.c", 0, 0, 9))) == [5]
    assert loaded(store, queries={Waiting("buyer", "1.c", 0, 0, 9)}).pending_bodies == {5: BODY}


def test_the_first_row_in_order_is_the_one_that_its_sender_accepted_first(store: MemoryStore) -> None:
    late = received(1, order_key="k")
    late.lk0 = late.lk0._replace(object_id=50)
    put(store, late, received(2, order_key="k"), received(3, order_key="k", app_status=AppStatus.DONE))
    assert ids(query_rows(store, FirstInOrder(str(IN.store), "k"))) == [2]
    assert query_rows(store, FirstInOrder(str(IN.store), "z")) == []


def test_streams_are_found_by_their_target(store: MemoryStore) -> None:
    put(store, own(1), own(2))
    assert query_rows(store, StreamsTo("1.b")) == [OutStream(STREAM, 3)]
    assert query_rows(store, StreamsTo("1.z")) == []


def test_rows_that_applications_wrote_by_sql_are_found_until_they_are_handled(store: MemoryStore) -> None:
    store.tables.submitted = {n: Submitted(n, "1.b", b"", "", 3, 1, "", "", "", "{}") for n in (2, 1, 3)}
    store.tables.done = {8: None, 7: "no use"}
    assert [row.row_id for row in query_rows(store, SubmittedRows(2))] == [1, 2]
    assert query_rows(store, SubmittedRows(2, ("1.b",))) == []

    def settle(unit: Unit) -> None:
        unit.taken_submissions[1] = LK0(*HERE, 1, 77)
        unit.refused_submissions[2] = SubmissionRefusal(LK0(*HERE, 1, 78), ("SEMQ-1201", "no"), 5)
        unit.taken_done.add(8)

    assert query_rows(store, DoneRows(1)) == [(8, None)]
    do(store, settle)
    assert [row.row_id for row in query_rows(store, SubmittedRows(9))] == [3]
    assert set(store.tables.submitted) == {2, 3}
    assert query_rows(store, DoneRows(9)) == [(7, "no use")]


# --------------------------------------------------------------------------------------------- writing


def test_a_sender_row_can_be_changed_lose_its_payload_and_be_deleted(store: MemoryStore) -> None:
    put(store, own(1))

    def change(unit: Unit) -> None:
        row = unit.outbound[1]
        row.ss_status = SendStatus.SS_ACK
        unit.change_outbound(row, SendStatus.SS_INIT)
        unit.drop_payload(row)

    do(store, change, outbound={1})
    unit = loaded(store, outbound={1}, bodies={1})
    assert (unit.outbound[1].ss_status, unit.outbound[1].has_payload) == (SendStatus.SS_ACK, False)
    assert unit.bodies[1] == Stored(b"envelope", b"")
    do(store, lambda unit: unit.replace_body(1, Stored(b"void", b"")))
    assert loaded(store, bodies={1}).bodies[1] == Stored(b"void", b"")
    do(store, lambda unit: unit.delete_outbound(unit.outbound[1]), outbound={1})
    assert not store.tables.outbound
    assert not store.tables.bodies


def test_a_receiver_row_can_be_changed_and_deleted_and_its_ledger_entry_stays(store: MemoryStore) -> None:
    put(store, received(1))

    def change(unit: Unit) -> None:
        unit.platform_acked |= {1, 99}
        unit.sender_acked.add(1)
        unit.given.add(1)
        unit.change_app_status(unit.pending[1], AppStatus.DONE)

    do(store, change, pending={1})
    row = loaded(store, pending={1}).pending[1]
    assert (row.p_ack_status, row.s_ack_status) == (AckStatus.AS_ACK, AckStatus.AS_ACK)
    assert (row.deliveries, row.app_status) == (1, AppStatus.DONE)
    do(store, lambda unit: unit.delete_pending(unit.pending[1]), pending={1})
    assert not store.tables.pending
    assert not store.tables.pending_bodies
    assert Slot(IN, 1) in store.tables.recorded


def test_a_raised_floor_deletes_the_records_below_it(store: MemoryStore) -> None:
    other = Slot(InStreamKey(IN.store, 1), 0)
    put(store, received(1), received(2), received(3))

    def decide(unit: Unit) -> None:
        unit.record(other, Recorded(Arrival.RECV))
        stream = unit.in_streams[IN] = InStream(IN, 1)
        unit.raise_floor(stream, 3)

    do(store, decide)
    assert set(store.tables.recorded) == {Slot(IN, 3), other}


def test_the_number_of_entries_for_messages_of_classes_1_and_2_is_bounded(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "SEEN_MAX", 2)
    for number in (1, 2, 3):
        do(store, partial(Unit.note_seen, lk0=LK0(*HERE, 1, number), entry=REFUSED))
    assert set(store.tables.seen) == {str(LK0(*HERE, 1, number)) for number in (2, 3)}


# -------------------------------------------------------------------------------- recovery and backups


def test_an_empty_memory_store_recovers_with_its_first_numbers(store: MemoryStore) -> None:
    recovered = store.recover(5)
    assert (recovered.store_uuid, recovered.boot, recovered.inc) == ("memory", 1, 5)
    assert (recovered.first_id, recovered.unsettled, recovered.pending) == (first_id(1), 0, 0) == (2**40 + 1, 0, 0)
    assert (recovered.streams, recovered.backlog, recovered.settled, recovered.finished) == ([], {}, [], [])
    assert store.recover(6).first_id == first_id(2)


def test_a_recovery_returns_the_state_of_the_streams(store: MemoryStore) -> None:
    ended = {"outcome": Outcome.CANCELLED}
    put(store, own(1, sid=0, **ended), own(2, sid=1), own(3, sid=2, **ended), own(4, sid=3), own(5, sid=4, **ended))
    put(store, own(6, sid=-1, save_fwd=SaveFwd.DROP), relayed(7))
    done = {"app_status": AppStatus.DONE, "s_ack_status": AckStatus.AS_ACK}
    put(store, received(1), received(2, **done), received(3, lk1=LK1(1, 1, 1), **done))
    recovered = store.recover(5)
    assert (recovered.streams, recovered.backlog) == ([StreamState(STREAM, 5, 1, {2, 4})], {"1.b": 4})
    assert (recovered.unsettled, recovered.settled, recovered.pending, recovered.finished) == (4, [1, 3, 5], 2, [2])
    put(store, relayed(8, held=True, reason=("SEMQ-1214", "")), relayed(9, held=True, reason=("SEMQ-1223", "")))
    again = store.recover(6)
    assert (recovered.refused, again.backlog, again.refused) == ({}, {"1.b": 6}, {"1.b": 1})


def test_a_stream_without_unsettled_rows_has_its_floor_at_the_next_position(store: MemoryStore) -> None:
    put(store, own(1, sid=0, outcome=Outcome.LOST, void=True))
    do(store, lambda unit: unit.delete_outbound(unit.outbound[1]), outbound={1})
    assert store.recover(5).streams == [StreamState(STREAM, 1, 1, set())]


def test_a_backup_does_not_change_with_its_tables(store: MemoryStore) -> None:
    put(store, own(1), received(1))
    backup = store.tables.snapshot()
    do(store, change(ss_status=SendStatus.SS_SENT, before=SendStatus.SS_INIT), outbound={1})
    put(store, own(2))
    do(store, lambda unit: unit.given.add(1))
    store.tables.restore(backup)
    assert set(store.tables.outbound) == {1}
    assert store.tables.outbound[1].ss_status is SendStatus.SS_INIT
    assert store.tables.pending[1].deliveries == 0
    late = do(store, lambda unit: unit.insert_outbound(own(3), BODY))
    assert isinstance(late.results[0], StoreFenced)
    put(MemoryStore(store.tables), own(3))
    assert set(backup.outbound) == {1}


def test_a_store_has_the_uuid_of_its_tables() -> None:
    assert MemoryStore(Tables("uuid")).recover(1).store_uuid == "uuid"
