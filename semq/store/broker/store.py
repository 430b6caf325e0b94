"""The durable part of the broker on Postgres: the implementation of ``operations.MessageStore``.

Row operations are posted to the node's store like any other work, so they share commits with the work of the engine.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import psycopg
from psycopg.rows import TupleRow
from sqlalchemy import Connection, Select, Table, exists, select

from semq.errors import SemqError, Unavailable
from semq.store import tables
from semq.store.broker.operations import (
    AddMessage,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteQueue,
    Done,
    DropMessages,
    ReadDone,
    RowsDone,
    SaveDone,
    StoredBacklog,
    StoredState,
    StoreOp,
)
from semq.store.broker.statements import BROKER
from semq.store.postgres.lease import Lease
from semq.store.work import COMMITTED, NO_NEEDS, JoinedPosts, Steps, Work, work

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

CHUNK = "SELECT data FROM broker_body WHERE body_id = %s AND index = %s"
MESSAGES = "SELECT * FROM broker_message WHERE queue_id = %s AND position = ANY(%s) ORDER BY position"
# Queues that are deleted, but still have messages
DELETED_QUEUES = """
    SELECT DISTINCT queue_id FROM broker_message m
    WHERE NOT EXISTS (SELECT FROM broker_queue q WHERE q.queue_id = m.queue_id)"""
# Parameters: keys; the place after which the rows of each key are searched; and, two times, the largest number of rows.
# Without these places, each search would read the rows deleted earlier, which Postgres keeps for open transactions.
DELETE_MESSAGES, DELETE_CHUNKS = (
    f"""DELETE FROM {table} WHERE ctid = ANY(ARRAY(
        SELECT r.ctid FROM unnest(%s::bigint[], %s::bigint[]) AS k (key, after) CROSS JOIN LATERAL
            (SELECT ctid FROM {table} WHERE {key} = k.key AND {place} > k.after ORDER BY {place} LIMIT %s) r LIMIT %s))
    RETURNING {key}, {place}"""
    for table, key, place in (("broker_message", "queue_id", "position"), ("broker_body", "body_id", "index"))
)
# Without it, Postgres may read all rows of a key, in order to sort them.
IN_ORDER_OF_INDEX = "SET LOCAL enable_sort = off"
# Limits of one transaction, which must be short: rows to delete, and keys to search
MESSAGES_AT_ONCE, CHUNKS_AT_ONCE, KEYS_AT_ONCE = 500, 100, 100
REMOVE_END_NOTE = "UPDATE semq_meta SET broker_ended = false WHERE broker_ended"
# The content header has the body size after class and weight (AMQP 0-9-1, 4.2.6.1).
PLACES_AND_SIZES = """
    SELECT queue_id, position, priority, body_id, ('x' || encode(substr(header, 5, 8), 'hex'))::bit(64)::bigint
    FROM broker_message ORDER BY queue_id, position"""
EAGER = """
    SELECT m.* FROM broker_message m JOIN unnest(%s::bigint[], %s::bigint[]) AS eager (queue_id, last)
    ON m.queue_id = eager.queue_id WHERE m.position <= eager.last OR m.body_id <> 0 ORDER BY m.queue_id, m.position"""
EAGER_MAX = 10_000  # messages that are loaded at the start, in addition to those with large bodies
EAGER_BYTES = 16 << 20  # bytes of the bodies of these messages
FETCHED = 10_000  # rows that a cursor fetches at a time


class WriterPort(Protocol):
    """The part of ``postgres.PostgresStore`` that is used here."""

    joined: JoinedPosts

    def post(self, work: Work) -> None:
        """Queue a piece of work."""

    async def execute(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``query`` with a connection of its own, in a thread."""

    @property
    def current_lease(self) -> Lease:
        """The lease of this opening of the store. Raises StoreUnavailable if the store is not open."""

    async def execute_as_owner(
        self, lease_: Lease, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Call ``query`` as ``execute`` does, in a transaction during which no other process can take the store over.

        Raises StoreFenced after a takeover; StoreUnavailable if the store was closed or opened again since ``lease_``.
        """


class BodyGone(SemqError):
    """A part of a large body is missing in the store."""

    code = "SEMQ-3022"
    remedy = "Consume the message again; if the error recurs, look for missing rows of broker_body."


class _Refused:
    """Refusals of the store on which later operations depend. It is asked when these are decided, because the
    parts of a list, and later lists, are written one after another."""

    def __init__(self) -> None:
        self.queues: dict[int, BaseException] = {}  # until their declaration or deletion is written

    def note(self, ops: Sequence[StoreOp], error: BaseException | None) -> None:
        for op in ops:
            if isinstance(op, DeclareQueue) and error is not None and not isinstance(error, Unavailable):
                self.queues[op.queue_id] = error
            elif isinstance(op, DeclareQueue | DeleteQueue) and error is None:
                self.queues.pop(op.queue_id, None)

    def errors(self, ops: Sequence[StoreOp]) -> dict[int, BaseException]:
        """Return the errors of messages whose queue was refused, by index."""
        if not self.queues:
            return {}
        return {
            index: self.queues[op.queue_id]
            for index, op in enumerate(ops)
            if isinstance(op, AddMessage) and op.queue_id in self.queues
        }


@work
def _save_part(saving: "_Saving", start: int, ops: Sequence[StoreOp]) -> Steps:
    unit = yield NO_NEEDS
    errors = saving.errors(ops)
    unit.broker.extend(saving.without_refused(ops))
    yield COMMITTED
    saving.answer(start, ops, errors)


@work
def _save_whole(ops: Sequence[StoreOp], refused: _Refused, done: Done) -> Steps:
    unit = yield NO_NEEDS
    for error in refused.errors(ops).values():
        raise error
    unit.broker.extend(ops)
    yield COMMITTED
    done(None)


class _Saving:
    """A list that the writer divides until each refused operation is alone, in the place of the list."""

    def __init__(self, refused: _Refused, done: SaveDone) -> None:
        self._refused = refused
        self._done = done
        self._left = 1  # parts without an answer
        self._errors: dict[int, BaseException] = {}
        self._refused_messages: list[StoreOp] = []

    def part(self, start: int, ops: Sequence[StoreOp]) -> Work:
        """Return the work for the operations from index ``start`` on."""
        saving = _save_part(self, start, ops)
        saving.on_failure = partial(self._fail, start, ops)
        if _is_divisible(ops):
            saving.divide = partial(self._divide, start, ops)
        return saving

    def _divide(self, start: int, ops: Sequence[StoreOp]) -> list[Work]:
        self._left += 1
        middle = len(ops) // 2
        if middle:
            return [self.part(start, ops[:middle]), self.part(start + middle, ops[middle:])]
        [drops] = ops
        assert isinstance(drops, DropMessages)
        middle = len(drops.positions) // 2
        parts = drops.positions[:middle], drops.positions[middle:]
        return [self.part(start, [DropMessages(drops.queue_id, positions, drops.became)]) for positions in parts]

    def errors(self, ops: Sequence[StoreOp]) -> dict[int, BaseException]:
        """Return the errors of operations that need something refused, by index."""
        errors = self._refused.errors(ops)
        self._refused_messages += [ops[index] for index in errors]
        return errors

    def without_refused(self, ops: Sequence[StoreOp]) -> Sequence[StoreOp]:
        """Return the operations without refused messages, and without the removal of a message that became one."""
        refused = {id(message) for message in self._refused_messages}
        if not refused:
            return ops
        return [
            op for op in ops
            if id(op) not in refused
            and not (isinstance(op, DropMessages) and any(id(message) in refused for message in op.became))
        ]  # fmt: skip

    def _fail(self, start: int, ops: Sequence[StoreOp], error: BaseException) -> None:
        self._refused.note(ops, error)
        self._refused_messages += [op for op in ops if isinstance(op, AddMessage)]
        self._answer(start, dict.fromkeys(range(max(1, len(ops))), error))

    def answer(self, start: int, ops: Sequence[StoreOp], errors: Mapping[int, BaseException]) -> None:
        """Note that a part was committed without the operations that have errors."""
        self._refused.note(ops, None)
        self._answer(start, errors)

    def _answer(self, start: int, errors: Mapping[int, BaseException]) -> None:
        self._left -= 1
        self._errors.update((start + index, error) for index, error in errors.items())
        if not self._left:
            self._done(self._errors)


def _is_divisible(ops: Sequence[StoreOp]) -> bool:
    return len(ops) > 1 or any(isinstance(op, DropMessages) and len(op.positions) > 1 for op in ops)


class PostgresMessageStore:
    """The message store on Postgres. It reads on connections other than the writer's."""

    def __init__(self, store: WriterPort) -> None:
        self._store = store
        self._reading: set[asyncio.Task[None]] = set()
        self._refused = _Refused()

    def save(self, ops: list[StoreOp], done: SaveDone) -> None:
        self._store.post(_Saving(self._refused, done).part(0, ops))

    def save_whole(self, ops: list[StoreOp], done: Done) -> None:
        saving = _save_whole(ops, self._refused, done)
        saving.on_failure = done
        self._store.post(saving)

    def as_one(self) -> AbstractContextManager[None]:
        return self._store.joined.as_one()

    def read_messages(self, queue_id: int, positions: Sequence[int], done: RowsDone) -> None:
        self._later(self._read_messages(queue_id, list(positions), done))

    async def _read_messages(self, queue_id: int, positions: list[int], done: RowsDone) -> None:
        try:
            rows = await self._store.execute(read_rows, queue_id, positions)
        except Exception as error:  # for any error: a caller waits for the answer
            if not isinstance(error, SemqError):
                log.exception("Messages of a queue cannot be read.")
            done(None, error)
        else:
            done([AddMessage(*row) for row in rows], None)

    def read_body(self, body_id: int, index: int, done: ReadDone) -> None:
        self._later(self._read_body(body_id, index, done))

    def _later(self, reading: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(reading)
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def load(self) -> StoredState:
        lease = self._store.current_lease  # the rows read from here on are changed only if this lease is still in force
        queues, bodies = await self._store.execute(find_unneeded)
        await self._delete(lease, DELETE_MESSAGES, queues, MESSAGES_AT_ONCE)
        await self._delete(lease, DELETE_CHUNKS, bodies, CHUNKS_AT_ONCE)
        state, marks = await self._store.execute(load)
        await self._store.execute_as_owner(lease, begin, marks)
        return state

    async def _delete(self, lease: Lease, statement: str, keys: list[int], most: int) -> None:
        """Delete all rows with these keys, in transactions of up to ``most`` rows, in order of key and place."""
        keys, after = sorted(keys), -1
        while keys:
            deleted = await self._store.execute_as_owner(
                lease, delete_some, statement, keys[:KEYS_AT_ONCE], after, most
            )
            if len(deleted) < most:
                keys, after = keys[KEYS_AT_ONCE:], -1
            else:
                last, after = max(deleted)
                keys = keys[keys.index(last) :]

    async def knows(self, vhost: str) -> bool:
        return await self._store.execute(knows, vhost)

    async def _read_body(self, body_id: int, index: int, done: ReadDone) -> None:
        try:
            data = await self._store.execute(read_chunk, body_id, index)
        except Exception as error:  # for any error: a caller waits for the answer
            if not isinstance(error, SemqError):
                log.exception("A part of a large body cannot be read.")
            done(None, error)
        else:
            done(data, None)


def read_chunk(connection: Connection, body_id: int, index: int) -> bytes:
    """Return one chunk of a large body. Raises BodyGone."""
    # A body of 1 GiB has four thousand chunks. So a chunk is read in one round trip, without BEGIN and ROLLBACK, and in
    # binary format, which is half as long.
    connection.execution_options(isolation_level="AUTOCOMMIT")
    row = _driver(connection).execute(CHUNK, (body_id, index), binary=True).fetchone()
    if row is None:
        raise BodyGone(body_id=body_id, index=index)
    data: bytes = row[0]
    return data


def read_rows(connection: Connection, queue_id: int, positions: list[int]) -> list[TupleRow]:
    """Return messages of a queue, in order of position."""
    connection.execution_options(isolation_level="AUTOCOMMIT")
    return _driver(connection).execute(MESSAGES, (queue_id, positions), binary=True).fetchall()


def _driver(connection: Connection) -> psycopg.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


def knows(connection: Connection, vhost: str) -> bool:
    """Return whether the store has an exchange, queue or binding of a virtual host."""
    tables_with_vhost = (tables.broker_exchange, tables.broker_queue, tables.broker_binding)
    return any(connection.scalar(select(exists().where(table.c.vhost == vhost))) for table in tables_with_vhost)


def unneeded_bodies() -> Select[int]:
    """Return the query for the bodies to which no message of a queue refers."""
    message, body, queue = tables.broker_message.c, tables.broker_body.c, tables.broker_queue.c
    # With NOT IN instead of NOT EXISTS, Postgres may repeat the inner query for each body. Messages with large bodies
    # are rare: ``body_id <> 0`` keeps the others out of the join.
    is_used = exists().where(message.body_id != 0, message.body_id == body.body_id, queue.queue_id == message.queue_id)
    return select(body.body_id).where(~is_used).distinct()


def find_unneeded(connection: Connection) -> tuple[list[int], list[int]]:
    """Return the deleted queues that still have messages, and the bodies to which no message of a queue refers.

    Only the owner may delete these bodies: a body is stored before the message that refers to it.
    """
    queues = [queue_id for (queue_id,) in _driver(connection).execute(DELETED_QUEUES)]
    return queues, list(connection.execute(unneeded_bodies()).scalars())


def delete_some(
    connection: Connection, statement: str, keys: list[int], after: int, most: int
) -> list[tuple[int, int]]:
    """Delete up to ``most`` rows with these keys; return the keys and places of the deleted rows.

    Of the first key, only rows behind place ``after`` are deleted.
    """
    driver = _driver(connection)
    driver.execute(IN_ORDER_OF_INDEX)
    places = [after, *[-1] * (len(keys) - 1)]
    return driver.execute(statement.encode(), (keys, places, most, most)).fetchall()


def begin(connection: Connection, marks: dict[int, int]) -> None:
    """Remove the note of an orderly end, and store the marks that ``load`` has added because the note was missing."""
    driver = _driver(connection)
    psycopg.RawCursor(driver).executemany(BROKER["mark_handed_out"].encode(), marks.items())
    driver.execute(REMOVE_END_NOTE)


def load(connection: Connection) -> tuple[StoredState, dict[int, int]]:
    """Return the stored state, and the marks in it that are not stored yet.

    These are added after a crash, because every message may have been delivered.
    """
    body, meta = tables.broker_body, tables.semq_meta.c
    with connection.begin():
        driver = _driver(connection)
        last_body_id = connection.execute(select(body.c.body_id).order_by(body.c.body_id.desc()).limit(1)).scalar()
        row = connection.execute(select(meta.next_queue_id, meta.broker_ended)).one_or_none()
        next_queue_id, ended = row or (1, False)
        backlogs, eager, highest = _divide_messages(driver)
        handed_out: dict[int, int] = dict(_all(connection, tables.broker_handed_out, lambda *row: row))
        marks = {} if ended else {queue: at for queue, at in highest.items() if at > handed_out.get(queue, 0)}
        state = StoredState(
            exchanges=_all(connection, tables.broker_exchange, DeclareExchange),
            queues=_all(connection, tables.broker_queue, DeclareQueue),
            bindings=_all(connection, tables.broker_binding, lambda identity, *values: Bind(*values)),
            messages=[AddMessage(*row) for row in driver.execute(EAGER, eager, binary=True)],
            backlogs=backlogs,
            handed_out=handed_out | marks,
            next_queue_id=next_queue_id,
            next_body_id=(last_body_id or 0) + 1,
        )
        return state, marks


def _divide_messages(
    driver: psycopg.Connection,
) -> tuple[dict[int, StoredBacklog], tuple[list[int], list[int]], dict[int, int]]:
    """Return the backlogs by queue; the parameters of ``EAGER``: queues, and the last position to load of each; and the
    highest position by queue.
    """
    backlogs: dict[int, StoredBacklog] = {}
    last: dict[int, int] = {}
    highest: dict[int, int] = {}
    count = total = 0
    with driver.cursor("broker_messages", binary=True) as cursor:
        cursor.itersize = FETCHED
        for queue_id, position, priority, body_id, size in cursor.execute(PLACES_AND_SIZES):
            highest[queue_id] = position
            if body_id:
                last.setdefault(queue_id, 0)  # EAGER selects all messages with large bodies
            elif queue_id not in backlogs and count < EAGER_MAX and total < EAGER_BYTES:
                last[queue_id], count, total = position, count + 1, total + size
            else:
                backlogs.setdefault(queue_id, StoredBacklog()).add(position, priority, size)
    return backlogs, (list(last), list(last.values())), highest


def _all(connection: Connection, table: Table, make: Callable[..., T]) -> list[T]:
    return [make(*row) for row in connection.execute(select(table))]
