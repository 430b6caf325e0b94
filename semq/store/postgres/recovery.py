"""Recovery: the state that a process reads from its store when it opens it (PROTOCOL.md S14)."""

from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import psycopg
from psycopg.rows import TupleRow

from semq.store import spans
from semq.store.postgres import lease as leases
from semq.store.postgres.conversion.rows import read_lk0
from semq.store.postgres.lease import Lease
from semq.store.postgres.owner import Owner
from semq.store.rows import OutStreamKey, RetiredStore, StoredPiece
from semq.store.unit import Recovered, StoppedOrder, StreamState, first_id
from semq.store.views.messages import RETURNED
from semq.umx_t.pieces import PIECES_USER
from semq.umx_t.status import AckStatus, AppStatus, Arrival, Direction, SaveFwd, SendStatus

COUNT_BOOT = """
    INSERT INTO semq_meta AS m (store_uuid, boot) VALUES (%s, 1)
    ON CONFLICT (single) DO UPDATE SET boot = m.boot + 1 RETURNING store_uuid, boot"""
INCARNATION = "INSERT INTO semq_incarnation (inc, boot) VALUES (%s, %s)"

# Unsettled positions of own streams: the first of each unbroken run, and the last of each stream. They are in the order
# of the index, and few even for a long backlog.
EDGES = f"""
    SELECT u.dest, u.inc, u.before, u.sid, u.is_last, s.next_sid
    FROM (
        SELECT dest, inc, sid, lag(sid) OVER stream AS before, lead(sid) OVER stream IS NULL AS is_last
        FROM tb_0031
        WHERE sid >= 0 AND direction = {Direction.OWN:d} AND outcome IS NULL
        WINDOW stream AS (PARTITION BY dest, inc ORDER BY sid)
    ) u JOIN tb_0031_stream s ON s.dest = u.dest AND s.inc = u.inc
    WHERE u.before IS NULL OR u.sid > u.before + 1 OR u.is_last
    ORDER BY u.dest, u.inc, u.sid"""
# Fill the column ``source`` in rows that an older version has written.
SOURCE = "split_part(lk0, '.', 1) || '.' || split_part(lk0, '.', 2)"
SOURCES = (
    f"UPDATE tb_0031 SET source = {SOURCE} WHERE source = '' AND direction = {Direction.RELAYED:d}",
    f"UPDATE tb_0030 SET source = {SOURCE} WHERE source = ''",
)
# Convert refused messages of class 1 and 2 that an older version has recorded. Each has a second row, whose ident ends
# with " REJ".
REFUSALS = f"""
    WITH mark AS (DELETE FROM tb_0030_seen WHERE ident LIKE '% REJ' RETURNING ident)
    UPDATE tb_0030_seen s SET status = {Arrival.REJ:d} FROM mark
    WHERE s.ident = left(mark.ident, -4) AND s.status <> {Arrival.REJ:d}"""
# Bodies stored ahead of their rows (``store.bodies_ahead``) that no unit took.
NOT_TAKEN = ("DELETE FROM tb_0031_body WHERE object_id < 0", "DELETE FROM tb_0030_body WHERE bref < 0")
BACKLOG = f"""
    SELECT dest, source, priority, count(*), count(*) FILTER (WHERE held AND reason_code = '{RETURNED}')
    FROM tb_0031 WHERE outcome IS NULL
    GROUP BY dest, source, priority ORDER BY dest, source, priority"""
IN_CUSTODY = f"""
    SELECT min(object_id), max(object_id), bool_and(ss_status = {SendStatus.SS_ACK:d}) FROM tb_0031
    WHERE outcome IS NULL AND direction = {Direction.OWN:d}
    GROUP BY object_id >> {spans.GROUP_BITS} ORDER BY 1"""
SETTLED = "SELECT object_id FROM tb_0031 WHERE outcome IS NOT NULL ORDER BY object_id"
IS_REMOVABLE = f"""(
    app_status <> {AppStatus.NEW:d}
    AND (lk1 IS NULL OR p_ack_status = {AckStatus.AS_ACK:d})
    AND (save_fwd <> {SaveFwd.MUST:d} OR s_ack_status = {AckStatus.AS_ACK:d}))"""
FINISHED = f"SELECT bref FROM tb_0030 WHERE {IS_REMOVABLE} ORDER BY bref"
RETIRED = "SELECT semq_id, semq_db_id, retired_by, why FROM semq_retired_store ORDER BY at"
PIECES = f"SELECT bref, source, size FROM tb_0030 WHERE target_user = '{PIECES_USER}' AND status = {Arrival.RECV:d}"
PENDING = f"""
    SELECT count(*), coalesce(array_agg(DISTINCT ARRAY[store, order_key, target_user]) FILTER (
        WHERE app_status = {AppStatus.NEW:d} AND status <> {Arrival.RECV:d} AND order_key <> ''
    ), '{{}}') FROM tb_0030 WHERE NOT {IS_REMOVABLE}"""


async def recover(
    connection: psycopg.AsyncConnection,
    owner: Owner,
    incarnation: int,
    new_uuid: UUID,
    *,
    former_epoch: int | None = None,
) -> tuple[Lease, Recovered]:
    """Open the store under a new incarnation, in one transaction that is committed when this returns.

    ``incarnation`` is stored before anything is accepted under it (rule N5). ``new_uuid`` is used only for a
    store that has none. ``former_epoch``: as in ``lease.take``, whose errors are raised.
    """
    async with connection.transaction():
        lease = await leases.take(connection, owner, former_epoch=former_epoch)
        store_uuid, boot = await _one(connection, COUNT_BOOT, (new_uuid,))
        await connection.execute(INCARNATION, (incarnation, boot))
        recovered = Recovered(str(store_uuid), boot, incarnation, first_id(boot))
        if boot == 1:  # no process has written rows yet
            return lease, recovered
        for statement in NOT_TAKEN:
            await connection.execute(statement)
        await connection.execute("SET LOCAL enable_seqscan = on")  # the following statements read whole tables
        for statement in (*SOURCES, REFUSALS):
            await connection.execute(statement)
        recovered.streams = [state async for state in _streams(connection)]
        async for dest, source, priority, waiting, refused in _rows_of(connection, BACKLOG):
            recovered.tracks[dest, source, priority] = waiting
            recovered.backlog[dest] = recovered.backlog.get(dest, 0) + waiting
            if refused:
                recovered.refused[dest] = recovered.refused.get(dest, 0) + refused
        recovered.unsettled = sum(recovered.backlog.values())
        recovered.custody = spans.in_custody([row async for row in _rows_of(connection, IN_CUSTODY)])
        recovered.settled = [row[0] async for row in _rows_of(connection, SETTLED)]
        recovered.finished = [row[0] async for row in _rows_of(connection, FINISHED)]
        recovered.pieces = [StoredPiece(*row) async for row in _rows_of(connection, PIECES)]
        recovered.pending, stopped = await _one(connection, PENDING)
        recovered.stopped_orders = [StoppedOrder(read_lk0(f"{store}.0.0").store, *order) for store, *order in stopped]
        recovered.retired = [RetiredStore(*row) async for row in _rows_of(connection, RETIRED)]
        await leases.keep(connection, lease)  # otherwise it could have expired during a long recovery
    return lease, recovered


async def _one(connection: psycopg.AsyncConnection, sql: str, params: Sequence[object] = ()) -> TupleRow:
    row = await (await connection.execute(sql, params)).fetchone()
    assert row is not None, "an aggregate or an upsert must return a row"
    return row


async def _rows_of(connection: psycopg.AsyncConnection, sql: str) -> AsyncIterator[TupleRow]:
    """Yield rows by a cursor on the server, because a backlog may be long."""
    async with connection.cursor("recover") as cursor:
        cursor.itersize = 5000
        await cursor.execute(sql)
        async for row in cursor:
            yield row


async def _streams(connection: psycopg.AsyncConnection) -> AsyncIterator[StreamState]:
    """Yield each stream with unsettled rows. Its floor is their lowest position; positions without rows are settled."""
    state: StreamState | None = None
    async for dest, inc, before, sid, is_last, next_sid in _rows_of(connection, EDGES):
        if before is None or state is None:
            state = StreamState(OutStreamKey(dest, inc), next_sid, floor=sid, settled_above=set())
        else:
            state.settled_above.update(range(before + 1, sid))
        if is_last:
            state.settled_above.update(range(sid + 1, next_sid))
            yield state
