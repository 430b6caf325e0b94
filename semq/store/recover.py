"""What a process must know of its store before it works: one transaction at the start of every life (PROTOCOL.md rule
S14).

Takes the store over, counts the boot, commits a new incarnation before anything is accepted under it (rule R5), and
reads what earlier lives left behind. Called by ``writer`` at the start and after each lost connection."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import psycopg

from semq.store import lease as leases
from semq.store.lease import Lease
from semq.store.rows import OutStreamKey
from semq.store.unit import Recovered, StreamState, first_id
from semq.umx_t.status import AckStatus, AppStatus, Direction, SaveFwd

MET = """
    INSERT INTO semq_meta AS m (store_uuid, boot) VALUES (%s, 1)
    ON CONFLICT (single) DO UPDATE SET boot = m.boot + 1 RETURNING store_uuid, boot"""
INCARNATION = "INSERT INTO semq_incarnation (inc, boot) VALUES (%s, %s)"

# All unsettled positions of our streams, stream by stream; the index on (dest, inc, sid) gives the order.
POSITIONS = f"""
    SELECT t.dest, t.inc, t.sid, s.next_sid
    FROM tb_0031 t JOIN tb_0031_stream s ON s.dest = t.dest AND s.inc = t.inc
    WHERE t.sid >= 0 AND t.direction = {Direction.OWN:d} AND t.outcome IS NULL
    ORDER BY t.dest, t.inc, t.sid"""
BACKLOG = "SELECT dest, count(*) FROM tb_0031 WHERE outcome IS NULL GROUP BY dest"
SETTLED = "SELECT object_id FROM tb_0031 WHERE outcome IS NOT NULL ORDER BY object_id"
IS_DONE = f"""(
    app_status <> {AppStatus.NEW:d}
    AND (lk1 IS NULL OR p_ack_status = {AckStatus.AS_ACK:d})
    AND (save_fwd <> {SaveFwd.MUST:d} OR s_ack_status = {AckStatus.AS_ACK:d}))"""
FINISHED = f"SELECT bref FROM tb_0030 WHERE {IS_DONE} ORDER BY bref"
PENDING = f"SELECT count(*) FROM tb_0030 WHERE NOT {IS_DONE}"


async def recover(
    connection: psycopg.AsyncConnection[Any], owner: str, incarnation: int, new_uuid: UUID
) -> tuple[Lease, Recovered]:
    """Open the store for a new life of the process, in one transaction that is committed when this returns.

    ``incarnation`` and ``new_uuid`` are fresh; the UUID counts only for a store that has none. Memory is bounded by
    the number of streams and their windows, and by the rows that wait for cleanup. Raises LeaseHeld while another
    process owns the store."""
    async with connection.transaction():
        lease = await leases.take(connection, owner)
        store_uuid, boot = await _one(connection, MET, (new_uuid,))
        await connection.execute(INCARNATION, (incarnation, boot))
        recovered = Recovered(str(store_uuid), boot, incarnation, first_id(boot))
        recovered.streams = [state async for state in _streams(connection)]
        recovered.backlog = dict([row async for row in _stream(connection, BACKLOG)])
        recovered.unsettled = sum(recovered.backlog.values())
        recovered.settled = [row[0] async for row in _stream(connection, SETTLED)]
        recovered.finished = [row[0] async for row in _stream(connection, FINISHED)]
        (recovered.pending,) = await _one(connection, PENDING)
    return lease, recovered


async def _one(connection: psycopg.AsyncConnection[Any], sql: str, params: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    row = await (await connection.execute(sql, params)).fetchone()
    assert row is not None, "an aggregate and an upsert always return a row"
    return tuple(row)


async def _stream(connection: psycopg.AsyncConnection[Any], sql: str) -> AsyncIterator[tuple[Any, ...]]:
    """Rows by a cursor at the server, so that a long backlog is never in memory as a whole."""
    async with connection.cursor("recover") as cursor:
        cursor.itersize = 5000
        await cursor.execute(sql)
        async for row in cursor:
            yield row


async def _streams(connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[StreamState]:
    """Each stream with unsettled rows: the floor is the lowest of them, settled is what is missing above it."""
    state: StreamState | None = None
    expected = 0
    async for dest, inc, sid, next_sid in _stream(connection, POSITIONS):
        key = OutStreamKey(dest, inc)
        if state is None or state.key != key:
            if state is not None:
                yield _closed(state, expected)
            state = StreamState(key, next_sid, floor=sid, settled_above=set())
            expected = sid
        state.settled_above.update(range(expected, sid))
        expected = sid + 1
    if state is not None:
        yield _closed(state, expected)


def _closed(state: StreamState, expected: int) -> StreamState:
    state.settled_above.update(range(expected, state.next_sid))
    return state
