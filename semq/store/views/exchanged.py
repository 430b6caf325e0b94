"""The documents that a ledger names as exchanged with one partner, in pages. Read-only.

The ledger has no index by time or by partner. A page reads at most ``BLOCKS_MAX`` blocks of one day's partition, in the
order in which they were written, so a page costs the same in a ledger of any size. A place is the partition, and the
block and line in it.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TypedDict

from sqlalchemy import Connection, func, select, text

from semq.store.postgres.ledger_partitions import PARTITIONS, partition_of
from semq.store.rows import MARKER, Event, Side
from semq.store.tables import TableRow, semq_ledger
from semq.umx_t.pieces import PIECES_USER

BLOCKS_MAX = 1024  # of 8 KiB, about 40,000 lines
ROWS_MAX = 200
FIRST = (Event.ACCEPTED, Event.RECEIVED)  # events of the lines that prove that this node has had a document
PLACE = r"^(semq_ledger_(?:[0-9]{8}|other)):([0-9]{1,9}),([0-9]{1,4})$"  # partition, block, line
BETWEEN_NODES = f"""
    target NOT LIKE '%/{PIECES_USER}' AND (
        side = {Side.SENDER:d} AND event = {Event.DELIVERED:d} AND split_part(target, '/', 1) = :partner
        OR side = {Side.RECEIVER:d} AND event = {Event.RECEIVED:d} AND starts_with(lk0, :partner || '.'))"""
# At a hub: documents of the institution of which it has taken custody. Lines about copies that a receiver has taken do
# not say whether it refused them.
AT_HUB = f"""
    target NOT LIKE '%/{PIECES_USER}'
    AND side = {Side.HUB:d} AND event = {Event.STORED:d} AND starts_with(lk0, :partner || '.')
    AND detail NOT LIKE '%{MARKER}'"""
# ``Tid Range Scan``, which reads only the blocks of the range
LINES = """
    SELECT ctid::text AS place, at, side, lk0, target, size FROM {partition}
    WHERE ctid > CAST(:after AS tid) AND ctid < CAST(:end AS tid) AND at >= to_timestamp(:since)
    AND {lines}
    ORDER BY ctid LIMIT :most"""
NEWEST = """
    SELECT max(at) FROM {partition}
    WHERE ctid > CAST(:after AS tid) AND ctid < CAST(:end AS tid) AND number <= :number"""
BLOCKS = "SELECT pg_relation_size(CAST(:name AS regclass)) / current_setting('block_size')::int"


class ExchangedRow(TypedDict):
    """A document that was delivered to a partner, received from it, or stored for it (``at``: ms since 1970)."""

    lk0: str
    at: int
    side: str
    target: str
    app_key: str
    size: int


class ExchangedRows(TypedDict):
    """A page; ``next``: its following one, empty after the last."""

    rows: list[ExchangedRow]
    next: str


def page(connection: Connection, partner: str, since_ms: int, place: str, lines: str = BETWEEN_NODES) -> ExchangedRows:
    """Return documents that were delivered to a partner or received from it since a time.

    ``place``: matches PLACE, or is empty for the first page. ``lines``: BETWEEN_NODES, or AT_HUB for documents of the
    partner that this hub has stored.
    """
    since = datetime.fromtimestamp(since_ms / 1000, UTC)
    begin, block, line = _read(place) if place else (partition_of(since.date()), 0, 0)
    names = [name for name in _partitions(connection) if name >= begin]
    if not names:
        return {"rows": [], "next": ""}
    if names[0] != begin:  # dropped meanwhile, or there is none for the day
        block = line = 0
    end, blocks = block + BLOCKS_MAX, _blocks(connection, names[0])
    wanted = {"after": f"({block},{line})", "end": f"({end},0)", "since": since_ms / 1000, "partner": partner}
    found = connection.execute(text(LINES.format(partition=names[0], lines=lines)), wanted | {"most": ROWS_MAX}).all()
    if len(found) == ROWS_MAX:
        following = f"{names[0]}:{found[-1].place.strip('()')}"
    elif end < blocks:
        following = f"{names[0]}:{end},0"
    else:
        following = f"{names[1]}:0,0" if len(names) > 1 else ""
    return {"rows": _with_keys(connection, found), "next": following}


def not_recorded(connection: Connection, lk0s: Iterable[str]) -> set[str]:
    """Return those of the locators of which this ledger has no line that begins a message."""
    c, asked = semq_ledger.c, set(lk0s)
    query = select(c.lk0).where(c.lk0 == func.any_(list(asked)), c.event.in_(FIRST))
    return asked - set(connection.execute(query).scalars())


def is_lost(connection: Connection, lk0: str, at_ms: int) -> bool:
    """Return whether the ledger knows nothing of a message of a time for which its lines are still kept."""
    days = _partitions(connection)
    is_kept = bool(days) and days[0] <= partition_of(datetime.fromtimestamp(at_ms / 1000, UTC).date())
    return is_kept and bool(not_recorded(connection, [lk0]))


def newest_before(connection: Connection, number: int) -> int | None:
    """Return the latest time of a line up to ``number``, in milliseconds since 1970 UTC; None if there is none.

    It reads from the end of the ledger to the first lines that are found.
    """
    for name in reversed(_partitions(connection)):
        end = _blocks(connection, name)
        while end > 0:
            begin = max(0, end - BLOCKS_MAX)
            window = {"after": f"({begin},0)", "end": f"({end},0)", "number": number}
            newest = connection.execute(text(NEWEST.format(partition=name)), window).scalar()
            if newest is not None:
                return int(newest.timestamp() * 1000)
            end = begin
    return None


def _partitions(connection: Connection) -> list[str]:
    """Return the partitions in the order of their days; the one for lines of other days comes last."""
    names = connection.execute(text(PARTITIONS)).scalars().all()
    return sorted(name for name in names if re.match(PLACE, f"{name}:0,0"))


def _blocks(connection: Connection, partition: str) -> int:
    return int(connection.execute(text(BLOCKS), {"name": partition}).scalar_one())


def _read(place: str) -> tuple[str, int, int]:
    match = re.match(PLACE, place)
    assert match is not None
    return match[1], int(match[2]), int(match[3])


def _with_keys(connection: Connection, found: Sequence[TableRow]) -> list[ExchangedRow]:
    """Return the lines with AppKey and size, which only the first line about a message has."""
    c, facts = semq_ledger.c, dict[str, tuple[str, int]]()
    first = select(c.lk0, c.app_domain, c.app_type, c.app_subtype, c.app_key, c.size).where(
        c.lk0 == func.any_([row.lk0 for row in found]), c.event.in_(FIRST)
    )
    for lk0, *key, size in connection.execute(first) if found else ():
        facts[lk0] = "/".join(key) if any(key) else "", size
    rows: list[ExchangedRow] = []
    for row in found:
        at, side = int(row.at.timestamp() * 1000), Side(row.side).name.lower()
        app_key, size = facts.get(row.lk0, ("", row.size))
        rows.append(ExchangedRow(lk0=row.lk0, at=at, side=side, target=row.target, app_key=app_key, size=size))
    return rows
