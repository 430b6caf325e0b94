"""The right to write into a store: one process at a time, by an epoch that each takeover raises (PROTOCOL.md section
10).

The writer checks its epoch, under a row lock, in every transaction that writes. Clocks never decide who may write: a
process that was suspended for an hour may write if its epoch is still the latest. The clock of the database only
decides when another process may take over.
"""

from dataclasses import dataclass
from typing import Any

import psycopg
from sqlalchemy import Connection, text

from semq.store.postgres.errors import LeaseHeld, StoreFenced
from semq.store.postgres.owner import NOWHERE, Owner

RENEW_S = 5.0
VALID_S = 15.0

IS_FREE = """(l.until < clock_timestamp() OR split_part(l.owner, ' ', 3) = %(process)s
        OR (%(place)s <> %(nowhere)s AND split_part(l.owner, ' ', 4) = %(place)s))"""
# The condition stands twice: before the row is locked, so that a held lease is not waited for, and after it.
TAKE = f"""
    INSERT INTO store_lease AS l (owner, epoch, until)
    SELECT %(owner)s, 1, clock_timestamp() + %(valid_s)s * interval '1 s'
    WHERE NOT EXISTS (SELECT FROM store_lease l WHERE NOT {IS_FREE})
    ON CONFLICT (single) DO UPDATE SET owner = excluded.owner, epoch = l.epoch + 1, until = excluded.until
    WHERE {IS_FREE}
    RETURNING epoch"""
# A suspended process, or one whose machine or network has failed, keeps the row lock of its open transaction. So its
# session is ended if the lease has expired and the session has waited for its client for RENEW_S.
END_SUSPENDED = """
    SELECT pg_terminate_backend(a.pid) FROM store_lease s, pg_stat_activity a JOIN pg_locks l USING (pid)
    WHERE s.until < clock_timestamp() AND l.relation = 'store_lease'::regclass AND l.granted
        AND a.datname = current_database() AND a.usename = current_user AND a.wait_event = 'ClientRead'
        AND a.state_change < clock_timestamp() - %(renew_s)s * interval '1 s'"""
SEEN = "SELECT owner, extract(epoch FROM until - clock_timestamp()) FROM store_lease"
KEEP = """
    UPDATE store_lease SET until = greatest(until, clock_timestamp() + %(valid_s)s * interval '1 s')
    WHERE epoch = %(epoch)s RETURNING epoch"""
GIVE_BACK = text("UPDATE store_lease SET until = clock_timestamp() WHERE epoch = :epoch")


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write, until the next takeover."""

    owner: str
    epoch: int


async def take(connection: psycopg.AsyncConnection[Any], owner: Owner) -> Lease:
    """Take the store over, in the caller's transaction. Raises LeaseHeld(owner, until_s) if another process owns it.

    A process need not wait for the expiry of the lease if it is the owner itself, or has the owner's place, which
    proves that the owner has ended. The row lock makes it wait, up to RENEW_S, for a transaction that may be
    committing.
    """
    facts = {"owner": str(owner), "process": owner.process, "place": owner.place, "nowhere": NOWHERE}
    await connection.execute(END_SUSPENDED, {"renew_s": RENEW_S})
    seen = await (await connection.execute(SEEN)).fetchone()
    recorded, until_s = (seen[0], round(float(seen[1]), 1)) if seen else ("", 0.0)
    held = LeaseHeld(owner=recorded, until_s=until_s)
    await connection.execute(f"SET LOCAL lock_timeout = {round(RENEW_S * 1000)}")
    try:
        row = await (await connection.execute(TAKE, {**facts, "valid_s": VALID_S})).fetchone()
    except psycopg.errors.LockNotAvailable as error:
        raise held from error
    if row is None:
        raise held
    await connection.execute("SET LOCAL lock_timeout = 0")
    return Lease(str(owner), row[0])


async def keep(connection: psycopg.AsyncConnection[Any], lease: Lease) -> None:
    """Renew the lease of a store that has rested. Raises StoreFenced if another process has taken it over."""
    kept = await connection.execute(KEEP, {"epoch": lease.epoch, "valid_s": VALID_S})
    if await kept.fetchone() is None:
        raise StoreFenced(owner=lease.owner)


def give_back(connection: Connection, lease: Lease) -> None:
    """End the lease, so that another process may take over at once."""
    with connection.begin():
        connection.execute(GIVE_BACK, {"epoch": lease.epoch})
