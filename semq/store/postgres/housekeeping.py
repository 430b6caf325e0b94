"""Deletion of rows whose retention period has ended, and the partitions of the ledger.

Rows are deleted in small batches, so that the writer never waits long for a lock.

| rows                             | kept                                                                         |
|----------------------------------|------------------------------------------------------------------------------|
| client tokens, taken submissions | ``token_days``                                                               |
| earlier names of submissions     | ``token_days``, and while the submission waits                               |
| idents of class 1 and 2          | the last 100,000 of each source store, and those of the last ``seen_days``   |
| received streams, their ledgers  | until closed, idle for ``stream_days``, and named in no row of tb_0030       |
| sent streams                     | while they have rows, or belong to one of the last 100 incarnations          |
| last positions of order keys     | while the message at the position has a row                                  |
| lines of the ledger              | ``ledger_days``; None keeps all                                              |
| lines of the audit log           | ``audit_days``                                                               |
| signed receipts, session keys    | as long as the lines that they prove                                         |
| figures over time                | of minutes 2 days, of hours 100 days, of days as long as the ledger          |
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import date, timedelta
from functools import partial
from typing import TypeVar

import psycopg
from msgspec import Struct

from semq.store.figures import DAY, HOUR, KEPT_DAYS, MINUTE
from semq.store.postgres import ledger_partitions
from semq.store.reader import ENDED_IF_SUSPENDED, connection_parameters
from semq.umx_t.status import Direction

T = TypeVar("T")

BATCH = 5000  # rows
SEEN_KEPT = 100_000
INCARNATIONS_KEPT = 100
FOR_EVER_DAYS = 365_000

# Kind of rows | statement that deletes at most one batch of them.
FORGET: dict[str, str] = {
    "tokens": """
        DELETE FROM tb_0031_token WHERE token IN (
            SELECT token FROM tb_0031_token WHERE at < now() - %(token_days)s * interval '1 day' LIMIT %(batch)s
            FOR UPDATE SKIP LOCKED)""",
    "taken": """
        DELETE FROM tb_0031_taken WHERE number IN (
            SELECT number FROM tb_0031_taken WHERE at < now() - %(token_days)s * interval '1 day' LIMIT %(batch)s
            FOR UPDATE SKIP LOCKED)""",
    "renamed": """
        DELETE FROM tb_0031_renamed r WHERE lk0 IN (
            SELECT lk0 FROM tb_0031_renamed WHERE at < now() - %(token_days)s * interval '1 day'
                AND NOT EXISTS (SELECT FROM tb_0031_submit s WHERE s.number = tb_0031_renamed.number) LIMIT %(batch)s
            FOR UPDATE SKIP LOCKED)""",
    "seen": """
        DELETE FROM tb_0030_seen WHERE ident IN (
            SELECT s.ident FROM tb_0030_seen s
            JOIN (
                SELECT store, (
                    SELECT at FROM tb_0030_seen k WHERE k.store = d.store ORDER BY at DESC OFFSET %(seen_kept)s LIMIT 1
                ) AS edge
                FROM (SELECT DISTINCT store FROM tb_0030_seen) d
            ) w ON w.store = s.store AND s.at <= w.edge
            WHERE s.at < now() - %(seen_days)s * interval '1 day' LIMIT %(batch)s)""",
    "streams_received": """
        DELETE FROM tb_0030_stream WHERE number IN (
            SELECT number FROM tb_0030_stream s
            WHERE closed IS NOT NULL AND moved_at < now() - %(stream_days)s * interval '1 day'
                AND NOT EXISTS (SELECT FROM tb_0030 p WHERE p.store = s.store AND (p.inc = s.inc OR p.prev_inc = s.inc))
            LIMIT %(batch)s FOR UPDATE SKIP LOCKED)""",
    "entries_of_streams_gone": """
        DELETE FROM tb_0030_ledger WHERE (stream, sid) IN (
            SELECT stream, sid FROM tb_0030_ledger l
            WHERE NOT EXISTS (SELECT FROM tb_0030_stream s WHERE s.number = l.stream) LIMIT %(batch)s)""",
    "streams_sent": f"""
        DELETE FROM tb_0031_stream WHERE (dest, inc) IN (
            SELECT dest, inc FROM tb_0031_stream s
            WHERE inc NOT IN (SELECT inc FROM semq_incarnation ORDER BY boot DESC LIMIT %(incarnations_kept)s)
                AND NOT EXISTS (
                    SELECT FROM tb_0031 t
                    WHERE t.dest = s.dest AND t.inc = s.inc AND t.sid >= 0 AND t.direction = {Direction.OWN:d})
            LIMIT %(batch)s FOR UPDATE SKIP LOCKED)""",
    "receipts": """
        DELETE FROM semq_receipts WHERE number IN (
            SELECT number FROM semq_receipts WHERE at < now() - %(ledger_days)s * interval '1 day' LIMIT %(batch)s
            FOR UPDATE SKIP LOCKED)""",
    "session_keys": """
        DELETE FROM semq_session_key WHERE id IN (
            SELECT id FROM semq_session_key WHERE made_at < now() - %(ledger_days)s * interval '1 day' LIMIT %(batch)s
            FOR UPDATE SKIP LOCKED)""",
    "figures": f"""
        DELETE FROM semq_figure WHERE ctid = ANY (ARRAY (
            SELECT ctid FROM semq_figure WHERE minutes = {MINUTE} AND at < now() - interval '{KEPT_DAYS[MINUTE]} days'
                OR minutes = {HOUR} AND at < now() - interval '{KEPT_DAYS[HOUR]} days'
                OR minutes = {DAY} AND at < now() - %(ledger_days)s * interval '1 day'
            LIMIT %(batch)s FOR UPDATE SKIP LOCKED))""",
}

# Two steps, because the writer may move a position meanwhile: the row then no longer matches. A single statement would
# compare the new version of the row with an old snapshot of tb_0031.
SETTLED_KEYS = f"""
    SELECT dest, order_key, inc, sid FROM tb_0031_order o
    WHERE NOT EXISTS (
        SELECT FROM tb_0031 t
        WHERE t.dest = o.dest AND t.inc = o.inc AND t.sid = o.sid AND t.direction = {Direction.OWN:d})
    LIMIT %(batch)s"""
FORGET_KEYS = """
    DELETE FROM tb_0031_order o
    USING unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]) AS c (dest, order_key, inc, sid)
    WHERE o.dest = c.dest AND o.order_key = c.order_key AND o.inc = c.inc AND o.sid = c.sid"""

FORGET_AUDIT = b"""
    DELETE FROM web_audit WHERE number IN (
        SELECT number FROM web_audit WHERE at < now() - %(audit_days)s * interval '1 day' ORDER BY at
        LIMIT %(batch)s)"""


class Keep(Struct, frozen=True):
    """Retention periods, in days."""

    token_days: int = 7
    seen_days: int = 7
    stream_days: int = 90
    ledger_days: int | None = 400
    audit_days: int = 400


KEEP = Keep()


async def tidy(
    url: str, today: date, keep: Keep = KEEP, may_delete: Callable[[date], bool] = lambda _: True
) -> Mapping[str, int]:
    """Make the partitions of the coming days, and delete expired rows; return the numbers of deleted rows by kind.

    The entry ``ledger_days`` is the number of dropped partitions. ``today`` is the date in UTC. ``may_delete`` gets the
    date of the database; False: nothing is deleted. If a step fails, for instance because a lock was not free in time,
    the others are done, and the first error is raised: psycopg.Error.
    """
    values = {
        "batch": BATCH,
        "seen_kept": SEEN_KEPT,
        "incarnations_kept": INCARNATIONS_KEPT,
        "token_days": keep.token_days,
        "seen_days": keep.seen_days,
        "stream_days": keep.stream_days,
        "audit_days": keep.audit_days,
        "ledger_days": FOR_EVER_DAYS if keep.ledger_days is None else keep.ledger_days,
    }
    parameters = connection_parameters(url, "semq-tidy", ENDED_IF_SUSPENDED)
    async with await psycopg.AsyncConnection.connect(**parameters, autocommit=True) as connection:
        faults: list[psycopg.Error] = []

        async def attempt(step: Callable[[], Awaitable[T]], otherwise: T) -> T:
            try:
                return await step()
            except psycopg.Error as error:
                if connection.closed:
                    raise
                faults.append(error)
                return otherwise

        deleted: dict[str, int] = {}
        none: list[str] = []
        await attempt(partial(ledger_partitions.make_ahead, connection, today), none)  # the default partition has lines
        if may_delete(await _date_of(connection)):
            for name, statement in FORGET.items():
                deleted[name] = await attempt(partial(_in_batches, connection, statement, values), 0)
            deleted["audit"] = await attempt(partial(_forget_audit, connection, values), 0)
            deleted["order_keys"] = await attempt(partial(_forget_keys, connection), 0)
            if keep.ledger_days is not None:
                first_kept = today - timedelta(keep.ledger_days)
                dropped = await attempt(partial(ledger_partitions.drop_before, connection, first_kept), none)
                deleted["ledger_days"] = len(dropped)
    if faults:
        raise faults[0]
    return deleted


async def _date_of(connection: psycopg.AsyncConnection) -> date:
    """Return the date of the database in UTC."""
    [[today]] = await (await connection.execute("SELECT (now() AT TIME ZONE 'UTC')::date")).fetchall()
    found: date = today
    return found


async def _forget_audit(connection: psycopg.AsyncConnection, values: Mapping[str, object]) -> int:
    """Delete expired lines of the audit log; a trigger permits this with ``semq.audit_retention``."""
    total = 0
    while True:
        async with connection.transaction():
            await connection.execute("SET LOCAL semq.audit_retention = 'on'")
            count = (await connection.execute(FORGET_AUDIT, values)).rowcount
        total += count
        if count < BATCH:
            return total


async def _in_batches(connection: psycopg.AsyncConnection, statement: str, values: Mapping[str, object]) -> int:
    total = 0
    while True:
        count = (await connection.execute(statement.encode(), values)).rowcount
        total += count
        if count < BATCH:
            return total


async def _forget_keys(connection: psycopg.AsyncConnection) -> int:
    total = 0
    while rows := await (await connection.execute(SETTLED_KEYS.encode(), {"batch": BATCH})).fetchall():
        count = (await connection.execute(FORGET_KEYS, [list(column) for column in zip(*rows, strict=True)])).rowcount
        total += count
        if count < BATCH:
            break
    return total
