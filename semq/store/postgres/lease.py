"""The right to write into a store (PROTOCOL.md section 10): one process at a time; each takeover increases the epoch.

The writer checks its epoch, under a row lock, in every transaction that writes. The clock of the database only decides
when another process may take over: a process that was suspended for an hour may write if its epoch is still the latest.
"""

from contextlib import suppress

import psycopg
from msgspec import Struct
from sqlalchemy import Connection, text

from semq.store.postgres.errors import LeaseHeld, StoreFenced, StoreForeign, StoreUnavailable, StoreWentBack
from semq.store.postgres.owner import NOWHERE, Owner

RENEW_S = 5.0
VALID_S = 15.0
WRITER = "semq-writer"  # name of the sessions in which the owner changes its store
CHAIN_READER = "semq-chain"  # name of the sessions in which the owner reads the ledger for a new chain

# A process that has owned the store (``again``) may have state in memory that another owner has made obsolete, so it
# may take only a lease that names it.
IS_FREE = """(split_part(l.owner, ' ', 3) = %(process)s OR (NOT %(again)s AND (l.until < clock_timestamp()
        OR (%(place)s <> %(nowhere)s AND split_part(l.owner, ' ', 4) = %(place)s))))"""
# IS_FREE is checked twice: before the row is locked, so that a held lease causes no wait, and after it.
TAKE = f"""
    INSERT INTO store_lease AS l (owner, epoch, until)
    SELECT %(owner)s, 1, clock_timestamp() + %(valid_s)s * interval '1 s'
    WHERE NOT EXISTS (SELECT FROM store_lease l WHERE NOT {IS_FREE})
    ON CONFLICT (single) DO UPDATE SET owner = excluded.owner, epoch = l.epoch + 1, until = excluded.until
    WHERE {IS_FREE}
    RETURNING epoch"""
# A suspended or unreachable process keeps the locks of an open transaction. So if the lease is free, a session with a
# lock on the lease is ended when it has waited RENEW_S for its process. Sessions that only read the lease
# (AccessShareLock) are not ended. A session of the owner that has only read so far is recognised by its name, and by
# locks on tables of this schema.
END_SUSPENDED = f"""
    SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
    WHERE NOT EXISTS (SELECT FROM store_lease l WHERE NOT {IS_FREE})
        AND a.pid IN (SELECT l.pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
            WHERE l.granted AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'store_lease'::regclass)
                AND (a.application_name IN ('{WRITER}', '{CHAIN_READER}')
                    OR (c.relname = 'store_lease' AND l.mode <> 'AccessShareLock')))
        AND a.datname = current_database() AND a.usename = current_user
        AND a.wait_event IN ('ClientRead', 'ClientWrite') AND a.xact_start IS NOT NULL
        AND a.state_change < clock_timestamp() - %(renew_s)s * interval '1 s'"""
EXISTS = b"SELECT to_regclass('store_lease') IS NOT NULL"
OWNER = b"SELECT owner FROM store_lease"
HOLDER = "SELECT owner, extract(epoch FROM until - clock_timestamp()), epoch FROM store_lease"
KEEP = """
    UPDATE store_lease SET until = greatest(until, clock_timestamp() + %(valid_s)s * interval '1 s')
    WHERE epoch = %(epoch)s RETURNING epoch"""
# Returns no row after a takeover. Otherwise, a takeover waits for the end of the transaction.
OWNED = "SELECT FROM store_lease WHERE epoch = {} FOR SHARE"
LOCK = text(OWNED.format(":epoch"))
GIVE_BACK = text("UPDATE store_lease SET until = clock_timestamp() WHERE epoch = :epoch")


class Lease(Struct, frozen=True):
    """The right to write, until the next takeover."""

    owner: str
    epoch: int


async def take(connection: psycopg.AsyncConnection, owner: Owner, *, former_epoch: int | None = None) -> Lease:
    """Take the store over, in the caller's transaction. Raises LeaseHeld(owner, until_s) if another process owns it,
    StoreForeign if it is the store of another node, and StoreUnavailable while a former session of this process holds
    the lock of the lease.

    ``former_epoch``: the epoch under which this process last opened the store; None if it has not opened it yet. With
    an epoch, StoreFenced is raised instead of LeaseHeld if the lease names another process, even one that has ended:
    that process has taken the store over since. StoreWentBack is raised for any lease whose epoch is lower than
    ``former_epoch``: the database went back to an earlier state. A higher epoch alone does not show that another
    process took the store over: this process may have done it itself, and lost the answer.

    A process need not wait until the lease has expired if it is the owner itself, on a new connection, or if it has the
    lock of the recorded owner's place, which shows that this owner has ended. Even then it waits up to RENEW_S for the
    row lock, because a commit may be under way.
    """
    facts = {
        "owner": str(owner), "process": owner.process, "place": owner.place, "nowhere": NOWHERE,
        "again": former_epoch is not None,
    }  # fmt: skip
    held, _ = await _held(connection)
    _refuse_other_node(held.facts["owner"], owner.node)
    with suppress(psycopg.errors.InsufficientPrivilege):  # a server may forbid the function
        async with connection.transaction():
            await connection.execute(END_SUSPENDED, {**facts, "renew_s": RENEW_S})
    await connection.execute(f"SET LOCAL lock_timeout = {round(RENEW_S * 1000)}")
    try:
        row = await (await connection.execute(TAKE, {**facts, "valid_s": VALID_S})).fetchone()
    except psycopg.errors.LockNotAvailable as error:
        if owner.process in held.facts["owner"].split():
            raise StoreUnavailable(fault="A former session of this process holds the lock of the lease.") from error
        raise held from error
    if row is None:
        held, epoch = await _held(connection)  # the owner may have changed during the wait for the lock
        if former_epoch is None:
            raise held
        raise (StoreWentBack if epoch < former_epoch else StoreFenced)(**held.facts)
    if former_epoch is not None and row[0] <= former_epoch:
        raise StoreWentBack(**held.facts)
    await connection.execute("SET LOCAL lock_timeout = 0")
    return Lease(str(owner), row[0])


def refuse_other_node(connection: psycopg.Connection, node: str) -> None:
    """Check, before the store is opened, that it is new or belongs to ``node``. Raises StoreForeign."""
    if connection.execute(EXISTS).fetchone() == (True,):
        row = connection.execute(OWNER).fetchone()
        _refuse_other_node(row[0] if row else "", node)


def _refuse_other_node(last_owner: str, node: str) -> None:
    """Raise StoreForeign if the last owner was a process of another node; '': there was none."""
    last_node = last_owner.partition(" ")[0]
    if last_node not in ("", node):
        raise StoreForeign(store=last_node, configured=node)


async def _held(connection: psycopg.AsyncConnection) -> tuple[LeaseHeld, int]:
    """Return a LeaseHeld that names the owner of the lease, and the epoch of the lease."""
    seen = await (await connection.execute(HOLDER)).fetchone()
    owner, until_s, epoch = (seen[0], round(max(float(seen[1]), 0.0), 1), seen[2]) if seen else ("", 0.0, 0)
    return LeaseHeld(owner=owner, until_s=until_s), epoch


async def keep(connection: psycopg.AsyncConnection, lease: Lease) -> None:
    """Renew a lease. Raises StoreFenced if another process has taken the store over."""
    kept = await connection.execute(KEEP, {"epoch": lease.epoch, "valid_s": VALID_S})
    if await kept.fetchone() is None:
        raise StoreFenced(owner=lease.owner)


def lock(connection: Connection, lease: Lease) -> None:
    """Prevent a takeover until the end of the caller's transaction. Raises StoreFenced if one has happened."""
    if connection.execute(LOCK, {"epoch": lease.epoch}).one_or_none() is None:
        raise StoreFenced(owner=lease.owner)


def give_back(connection: Connection, lease: Lease) -> None:
    """End the lease, so that another process may take over at once."""
    with connection.begin():
        connection.execute(GIVE_BACK, {"epoch": lease.epoch})
