"""A broker's state on Postgres equals its state in memory, after any operations and any number of restarts."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql

from semq.amqp.content import ContentHeader, Properties
from semq.store.broker import store as broker_store
from semq.store.broker.operations import (
    AddBodyChunk,
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    DropBody,
    DropMessages,
    MarkHandedOut,
    OrderlyEnd,
    SetDeliveryCount,
    StoredState,
    StoreOp,
    Unbind,
)
from semq.store.broker.store import (
    DELETE_CHUNKS,
    DELETE_MESSAGES,
    IN_ORDER_OF_INDEX,
    BodyGone,
    PostgresMessageStore,
    delete_some,
    unneeded_bodies,
)
from semq.store.embedded.cluster import DATABASE
from semq.store.postgres.errors import StoreFenced, StoreUnavailable
from semq.store.postgres.lease import Lease
from semq.store.work import JoinedPosts
from tests.broker.memory_store import MemoryBrokerStore
from tests.depth import deeper
from tests.store.postgres.notified_store import NotifiedStore, column, open_notified_store, run, versions_of_rows

small, flags = st.integers(1, 3), st.booleans()
names = st.sampled_from(["a", "b", "schlüssel"])
data = st.binary(max_size=20)
binding = (names, names, names, flags, names, data)
ops = st.one_of(
    st.builds(DeclareExchange, names, names, names, flags, flags, data),
    st.builds(DeleteExchange, names, names),
    st.builds(DeleteQueue, small),
    st.builds(Bind, *binding),
    st.builds(Unbind, *binding),
    st.builds(
        AddMessage, small, st.integers(1, 6), names, names, st.integers(0, 9),
        st.none() | st.floats(0, 1e10), st.integers(0, 3), data, data, st.integers(0, 3),
    ),
    st.builds(DropMessages, small, st.lists(st.integers(1, 6), unique=True)),
    st.builds(SetDeliveryCount, small, st.integers(1, 6), st.integers(0, 9)),
    st.builds(MarkHandedOut, small, st.integers(1, 6)),
    st.builds(AddBodyChunk, small, st.integers(0, 2), data),
    st.builds(DropBody, small),
    st.builds(OrderlyEnd),
)  # fmt: skip


def declarations(declared: set[int], deleted: Counter[int], op: Any) -> list[StoreOp]:
    """Return an operation; if it is the first one for its queue, the declaration of the queue precedes it.

    After a DeleteQueue the drawn id denotes a new queue, because no id is used again.
    """
    drawn = getattr(op, "queue_id", None)
    if drawn is None:
        return [op]
    queue = drawn + 10 * deleted[drawn]
    op = replace(op, queue_id=queue)
    if isinstance(op, DeleteQueue):
        deleted[drawn] += 1
        return [op]
    if queue in declared:
        return [op]
    declared.add(queue)
    return [DeclareQueue(queue, "v", f"q{queue}", False, b""), op]


async def save(store: PostgresMessageStore, ops: list[StoreOp]) -> BaseException | None:
    outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    store.save_whole(ops, outcome.set_result)
    assert not outcome.done()
    return await outcome


def comparable(state: StoredState) -> dict[str, Any]:
    return {
        name: sorted(value, key=repr) if isinstance(value, list) else value
        for name, value in ((name, getattr(state, name)) for name in StoredState.__struct_fields__)
    }


def is_possible(memory: MemoryBrokerStore, op: StoreOp) -> bool:
    """Return whether a broker can produce an operation: it adds nothing under a key in use."""
    if isinstance(op, AddMessage):
        return (op.queue_id, op.position) not in memory.messages
    if isinstance(op, AddBodyChunk):
        return op.index not in memory.bodies.get(op.body_id, {})
    return True


@settings(max_examples=deeper(10, 25))
@given(lists=st.lists(st.lists(ops, max_size=6), max_size=8), together=flags)
def test_postgres_and_memory_return_the_same_broker_state(
    database_for_all: str, lists: list[list[StoreOp]], together: bool
) -> None:
    asyncio.run(_both_stores(database_for_all, lists, together))


async def _both_stores(url: str, lists: list[list[StoreOp]], together: bool) -> None:
    """Save lists in both stores, and compare the states. ``together``: save without waiting for the previous list."""
    for table in ("exchange", "queue", "binding", "message", "body", "handed_out"):
        run(url, f"DELETE FROM broker_{table}")
    async with open_notified_store(url) as notified:
        run(url, "UPDATE semq_meta SET next_queue_id = 1")
        postgres, memory = PostgresMessageStore(notified.store), MemoryBrokerStore(lambda callback: callback())
        declared: set[int] = set()
        deleted: Counter[int] = Counter()
        saving = []
        for drawn_ops in lists:
            allowed: list[StoreOp] = []
            with_declarations = [op for drawn in drawn_ops for op in declarations(declared, deleted, drawn)]
            for op in with_declarations:
                if is_possible(memory, op):
                    memory.save([op], lambda error: None)
                    allowed.append(op)
            saving.append(save(postgres, allowed))
            if not together:
                assert await saving.pop() is None
        assert await asyncio.gather(*saving) == [None] * len(saving)
        for _ in range(2):  # the second load is that of a process after a crash
            assert comparable(await postgres.load()) == comparable(await memory.load())


@pytest.fixture(scope="module")
def database_for_all(postgres: Any) -> str:
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE brokers TEMPLATE {DATABASE}".encode())
    return str(postgres.url_of("brokers"))


async def test_large_bodies_are_read_in_parts(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        assert await save(store, [AddBodyChunk(7, 0, b"x" * 100_000), AddBodyChunk(7, 1, b"y")]) is None
        outcome: asyncio.Future[tuple[bytes | None, BaseException | None]] = asyncio.get_running_loop().create_future()
        store.read_body(7, 1, lambda data, error: outcome.set_result((data, error)))
        assert not outcome.done()
        assert await outcome == (b"y", None)
        fault: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
        store.read_body(7, 2, lambda data, error: fault.set_result(error))
        assert isinstance(await fault, BodyGone)


async def test_ids_of_queues_are_never_used_twice(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        assert (await store.load()).next_queue_id == 1
        assert await save(store, [DeclareQueue(5, "v", "q", False, b""), DeleteQueue(5)]) is None
        assert (await store.load()).next_queue_id == 6


async def test_a_delivery_count_does_not_apply_to_a_later_message_at_the_same_position(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        message = AddMessage(1, 1, "", "q", 0, None, 3, b"h", b"")
        again = AddMessage(1, 1, "", "q", 0, None, 4, b"h", b"")
        assert await save(store, [DeclareQueue(1, "v", "q", False, b""), SetDeliveryCount(1, 1, 9), message]) is None
        assert (await store.load()).messages == [message]
        assert (
            await save(store, [SetDeliveryCount(1, 1, 9), DropMessages(1, [1]), SetDeliveryCount(1, 1, 9), again])
            is None
        )
        assert (await store.load()).messages == [again]


async def test_many_messages_are_written_by_copy(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        messages: list[StoreOp] = [AddMessage(1, n, "", "q", 0, None, 0, b"h", b"b" * n) for n in range(200)]
        assert await save(store, [DeclareQueue(1, "v", "q", False, b""), *messages]) is None
        assert notified.store.counters.copied == 200
        assert (await store.load()).messages == messages


async def test_a_long_queue_is_loaded_as_its_first_messages_and_a_backlog_of_numbers(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semq.store.broker.store.EAGER_MAX", 3)
    header = ContentHeader.build(7, Properties(app_id="a")).raw
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        rows = [AddMessage(1, n, "", "q", n % 3, None, 0, header, b"seven..") for n in range(1, 9)]
        large = AddMessage(1, 9, "", "q", 0, None, 0, header, b"", 4)
        chunk = AddBodyChunk(4, 0, b"large")
        assert await save(store, [DeclareQueue(1, "v", "q", False, b""), *rows, chunk, large]) is None
        state = await store.load()
        assert state.messages == [*rows[:3], large]
        (backlog,) = state.backlogs.values()
        assert list(backlog.positions) == [4, 5, 6, 7, 8]
        assert list(backlog.priorities) == [1, 2, 0, 1, 2]
        assert list(backlog.sizes) == [7] * 5
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        store.read_messages(1, backlog.positions[1:3], lambda *result: answer.set_result(result))
        assert await answer == (rows[4:6], None)


async def test_messages_of_deleted_queues_are_removed_at_the_load(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        message = AddMessage(1, 1, "", "q", 0, None, 0, b"h", b"")
        assert await save(store, [DeclareQueue(1, "v", "q", False, b""), message, MarkHandedOut(1, 1)]) is None
        assert await save(store, [DeleteQueue(1)]) is None
        assert column(database, "SELECT count(*) FROM broker_message") == [1]
        assert (await store.load()).messages == []
        assert column(database, "SELECT count(*) FROM broker_message") == [0]


async def test_messages_dropped_in_the_unit_that_deletes_their_queue_are_deleted(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        message = AddMessage(1, 1, "", "q", 0, None, 0, b"h", b"")
        assert await save(store, [DeclareQueue(1, "v", "q", False, b""), message]) is None
        assert await save(store, [DropMessages(1, [1]), DeleteQueue(1)]) is None
        assert column(database, "SELECT count(*) FROM broker_message") == [0]


async def test_the_first_load_after_a_crash_marks_all_messages_for_good(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        messages = [AddMessage(1, position, "", "q", 0, None, 0, b"h", b"") for position in (1, 2, 3)]
        large = AddMessage(2, 1, "", "q", 0, None, 0, b"h", b"", 7)
        queues = [DeclareQueue(number, "v", f"q{number}", False, b"") for number in (1, 2, 3)]
        marks = [MarkHandedOut(1, 1), MarkHandedOut(3, 9)]
        assert await save(store, [*queues, *messages, AddBodyChunk(7, 0, b"a"), large, *marks, OrderlyEnd()]) is None
        assert [(await store.load()).handed_out for _ in range(2)] == [{1: 1, 3: 9}, {1: 3, 2: 1, 3: 9}]
        later = AddMessage(1, 4, "", "q", 0, None, 0, b"h", b"")
        assert await save(store, [later, OrderlyEnd()]) is None
        assert (await store.load()).handed_out == {1: 3, 2: 1, 3: 9}


async def test_a_list_of_operations_is_written_as_a_whole_or_not_at_all(database: str) -> None:
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        good = save(store, [AddMessage(1, 1, "", "q", 0, None, 0, b"h", b"")])
        bad = save(
            store,
            [AddMessage(1, 2, "", "q", 0, None, 0, b"h", b""), DeclareExchange("v", "nul\0", "x", False, False, b"")],
        )
        assert [type(error).__name__ for error in await asyncio.gather(good, bad)] == ["NoneType", "RowRefused"]
        assert column(database, "SELECT position FROM broker_message") == [1]


async def test_many_unneeded_rows_are_deleted_in_short_transactions_that_continue_one_another(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "MESSAGES_AT_ONCE", "CHUNKS_AT_ONCE", "KEYS_AT_ONCE":
        monkeypatch.setattr(broker_store, name, 2)
    deletions: list[tuple[list[int], int, list[tuple[int, int]]]] = []

    def delete_and_note(connection: Connection, statement: str, keys: list[int], after: int, most: int) -> Any:
        deleted = delete_some(connection, statement, keys, after, most)
        deletions.append((keys, after, sorted(deleted)))
        return deleted

    monkeypatch.setattr(broker_store, "delete_some", delete_and_note)
    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        kept = AddMessage(2, 1, "", "kept", 0, None, 0, b"h", b"")
        messages = [AddMessage(1, position, "", "q", 0, None, 0, b"h", b"") for position in range(3)]
        chunks = [AddBodyChunk(body_id, index, b"a part") for body_id in (5, 6, 7) for index in range(body_id - 4)]
        assert await save(store, [DeclareQueue(2, "v", "kept", False, b""), kept, *messages, *chunks]) is None
        assert (await store.load()).messages == [kept]
    assert column(database, "SELECT count(*) FROM broker_body") == [0]
    assert deletions == [
        # keys, place after which the deletion continues, deleted rows
        ([1], -1, [(1, 0), (1, 1)]),
        ([1], 1, [(1, 2)]),
        ([5, 6], -1, [(5, 0), (6, 0)]),
        ([6, 7], 0, [(6, 1), (7, 0)]),
        ([7], 0, [(7, 1), (7, 2)]),
        ([7], 2, []),
    ]


@pytest.mark.parametrize("statement", [DELETE_MESSAGES, DELETE_CHUNKS])
def test_a_deletion_does_not_search_what_earlier_ones_have_deleted(database: str, statement: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(IN_ORDER_OF_INDEX)
        explained = connection.execute(f"EXPLAIN {statement}".encode(), ([1, 2], [7, -1], 2, 2)).fetchall()
    plan = " ".join(line.strip() for (line,) in explained)
    assert re.search(r'Index Cond: \(\(\w+ = k.key\) AND \("?\w+"? > k.after\)\)', plan), plan
    assert "Sort" not in plan, plan


def test_bodies_without_a_message_are_searched_by_a_join(database: str) -> None:
    """A plan with an inner query may repeat it for each body."""
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    query = str(unneeded_bodies().compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    with psycopg.connect(database) as connection:
        plan = " ".join(line for (line,) in connection.execute(f"EXPLAIN {query}".encode()).fetchall())
    assert "Join" in plan, plan
    assert "SubPlan" not in plan, plan


async def test_a_load_that_fails_keeps_the_note_of_an_orderly_end(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(connection: Connection) -> StoredState:
        raise StoreUnavailable

    async with open_notified_store(database) as notified:
        store = PostgresMessageStore(notified.store)
        assert await save(store, [OrderlyEnd()]) is None
        with monkeypatch.context() as failing:
            failing.setattr(broker_store, "load", fail)
            with pytest.raises(StoreUnavailable):
                await store.load()
        assert column(database, "SELECT broker_ended FROM semq_meta") == [True]


async def test_a_suspended_process_deletes_nothing_of_the_next_owner_when_it_continues(database: str) -> None:
    """The next owner has stored a body, but not yet the message that refers to it."""
    async with (
        open_notified_store(database, "one", "here") as former,
        open_notified_store(database, "two", "here") as owner,
    ):
        assert await save(PostgresMessageStore(owner.store), [AddBodyChunk(7, 0, b"a part")]) is None
        with pytest.raises(StoreFenced):
            await PostgresMessageStore(former.store).load()
        assert column(database, "SELECT data FROM broker_body") == [b"a part"]


@pytest.mark.parametrize("is_reopened", [False, True])
@pytest.mark.parametrize("queries", range(1, 6))
async def test_a_load_changes_nothing_after_another_opening_of_the_store(
    database: str, monkeypatch: pytest.MonkeyPatch, queries: int, is_reopened: bool
) -> None:
    """After ``queries`` queries of the load, another process opens the store, or this one opens it again.

    The queries are the search, two deletions of messages, one of parts of bodies, and the reading of the state.
    """
    monkeypatch.setattr(broker_store, "MESSAGES_AT_ONCE", 2)
    async with open_notified_store(database, "one", "here") as former:
        store, owner = PostgresMessageStore(former.store), NotifiedStore(database, "two", "here")
        unneeded = [AddMessage(1, position, "", "q", 0, None, 0, b"h", b"") for position in range(3)]
        kept = AddMessage(2, 1, "", "kept", 0, None, 0, b"h", b"")
        chunk = AddBodyChunk(7, 0, b"a part")
        assert await save(store, [DeclareQueue(2, "v", "kept", False, b""), *unneeded, kept, chunk]) is None
        execute, rows = former.store.execute, list[Any]()

        async def execute_and_interrupt(*arguments: Any) -> Any:
            nonlocal queries
            result = await execute(*arguments)
            queries -= 1
            if queries == 0:
                await (former if is_reopened else owner).store.start()
                rows.extend(versions_of_rows(database))
            return result

        monkeypatch.setattr(former.store, "execute", execute_and_interrupt)
        with pytest.raises(StoreUnavailable) as caught:
            await store.load()
        assert isinstance(caught.value, StoreFenced) != is_reopened
        assert versions_of_rows(database) == rows
        await owner.store.stop()


async def test_an_unavailable_store_is_reported(database: str) -> None:
    store = PostgresMessageStore(NotifiedStore(database).store)
    assert isinstance(await save(store, []), StoreUnavailable)


class FailingQueries:
    """A store whose queries fail with an unexpected error."""

    def post(self, work: Any) -> None:
        raise NotImplementedError

    joined = JoinedPosts(lambda _: None)
    current_lease = Lease("one", 1)

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        raise ZeroDivisionError("oops")

    execute_as_owner = execute


async def test_a_read_that_fails_in_an_unforeseen_way_is_answered_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    outcome: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    PostgresMessageStore(FailingQueries()).read_body(7, 0, lambda data, error: outcome.set_result(error))
    async with asyncio.timeout(60):
        assert isinstance(await outcome, ZeroDivisionError)
    assert "ZeroDivisionError" in caplog.text


async def test_only_refused_operations_are_missing_and_the_order_of_lists_is_kept(database: str) -> None:
    """A list is divided where it stands: an operation of a later list must not overtake one of its parts."""
    refusal = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$"
    run(database, refusal)
    for when, table in (("INSERT", "broker_queue"), ("DELETE", "broker_message")):
        row, key = ("NEW", "queue_id = 3") if when == "INSERT" else ("OLD", "position = 5")
        trigger = f"CREATE TRIGGER refuse BEFORE {when} ON {table} FOR EACH ROW WHEN ({row}.{key})"
        run(database, f"{trigger} EXECUTE FUNCTION refuse()")
    async with open_notified_store(database) as notified:
        store, answers = PostgresMessageStore(notified.store), list[dict[int, str]]()
        answered = asyncio.Event()

        def note(errors: Mapping[int, BaseException]) -> None:
            answers.append({index: type(error).__name__ for index, error in sorted(errors.items())})
            if len(answers) == 4:
                answered.set()

        messages = [AddMessage(1, at, "", "q", 0, None, 0, b"", b"") for at in range(1, 10)]
        declared = [DeclareQueue(number, "/", f"q{number}", False, b"") for number in (1, 2, 3, 4)]
        store.save([*declared, *messages], note)
        store.save([DeleteQueue(4), DropMessages(1, [1]), AddMessage(2, 1, "", "q", 0, None, 0, b"", b"")], note)
        store.save([DropMessages(1, [2, 3, 4, 5, 6])], note)
        store.save([], note)
        await answered.wait()
        assert answers == [{2: "RowRefused"}, {}, {0: "RowRefused"}, {}]
        assert column(database, "SELECT queue_id FROM broker_queue ORDER BY 1") == [1, 2]
        positions = column(database, "SELECT position FROM broker_message WHERE queue_id = 1 ORDER BY 1")
        assert positions == [5, 7, 8, 9]
