"""The chain of the ledger: the writer extends it in each commit that has ledger lines; ``verify`` checks it.

A commit usually replaces the newest link only. Lines are hashed in the binary form of COPY.
"""

import struct
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from datetime import date, timedelta
from itertools import groupby
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.adapt import Buffer
from psycopg.rows import TupleRow

from semq.seal.chain import LINES_MAX, START, ChainLink, add, begin
from semq.seal.errors import LedgerChanged
from semq.store.postgres.conversion.binary import COPY_END, COPY_HEAD, Param, int4, int8
from semq.store.postgres.statements import names
from semq.store.tables import semq_ledger

EPOCH = date(2000, 1, 1)
DAY_US = 86_400_000_000
FIRST_FIELDS = struct.Struct("!hiqiq").unpack_from  # number of columns; length and value of ``number`` and of ``at``
LINE_COLUMNS = names(semq_ledger)
COLUMNS = "day, place, first, last, count, before, hash"
NEWEST = f"SELECT {COLUMNS} FROM semq_chain ORDER BY first DESC LIMIT 1"
LINKS = f"SELECT {COLUMNS} FROM semq_chain WHERE day BETWEEN %s AND %s ORDER BY first"
BEFORE = f"SELECT {COLUMNS} FROM semq_chain WHERE first < %s ORDER BY first DESC LIMIT 1"
COPY_LINKS = f"COPY semq_chain ({COLUMNS}) FROM STDIN"
HAS_LINES = "SELECT EXISTS (SELECT FROM semq_ledger)"
ALL_LINES = f"COPY (SELECT {LINE_COLUMNS} FROM semq_ledger ORDER BY number) TO STDOUT (FORMAT binary)"


def day_name(number: int) -> str:
    """Return an ISO date from days since 2000-01-01."""
    return (EPOCH + timedelta(number)).isoformat()


class Chain:
    """The chain as this process has last committed it. ``head``: the newest link; None for an empty chain."""

    def __init__(self, store_uuid: str, head: ChainLink | None) -> None:
        self.store_uuid = store_uuid
        self.head = head
        self.former_line = 0 if head is None else head.last  #: number of the last line of earlier processes

    def changed_links(self, rows: Sequence[Sequence[Any]], packed: Sequence[Buffer]) -> list[ChainLink]:
        """Return the links that these lines change or add; the last one is the next ``head``.

        ``packed``: the rows in the form of COPY.
        """
        lines = ((values[0], values[1], data) for values, data in zip(rows, packed, strict=True))
        return changed_links(self.store_uuid, self.head, lines)


def ends_before(stored: ChainLink | None, former: ChainLink | None) -> bool:
    """Return whether the chain of a store ends before ``former``, an end that was committed."""
    return former is not None and (stored is None or (stored.place, stored.count) < (former.place, former.count))


def changed_links(store_uuid: str, head: ChainLink | None, lines: Iterable[tuple[int, int, Buffer]]) -> list[ChainLink]:
    """Return the links that lines (number, microseconds since 2000, bytes) change or add after ``head``."""
    links: list[ChainLink] = []
    for day, run in groupby(lines, key=lambda line: line[1] // DAY_US):
        name = day_name(day)
        remaining = [(number, data) for number, _, data in run]
        while remaining:
            if head is None or head.day != name or head.count >= LINES_MAX:
                place = 1 if head is None else head.place + 1
                head = begin(store_uuid, name, place, remaining[0][0], START if head is None else head.hash)
            room = LINES_MAX - head.count
            head = add(head, remaining[:room])
            links.append(head)
            remaining = remaining[room:]
    return links


def params(link: ChainLink) -> list[Param]:
    """Return a link as parameters of the statement ``chain``."""
    day = (date.fromisoformat(link.day) - EPOCH).days
    return [
        int4(day), int8(link.place), int8(link.first), int8(link.last), int8(link.count), link.before, link.hash,
    ]  # fmt: skip


async def newest(connection: psycopg.AsyncConnection) -> ChainLink | None:
    """Return the end of the chain in the database; None if there are no links."""
    row = await (await connection.execute(NEWEST)).fetchone()
    return None if row is None else _link(row)


async def has_lines(connection: psycopg.AsyncConnection) -> bool:
    """Return whether the ledger has lines; a ledger with lines but without links comes from an older version."""
    return await (await connection.execute(HAS_LINES)).fetchone() == (True,)


async def links_of_ledger(connection: psycopg.AsyncConnection, store_uuid: str) -> list[ChainLink]:
    """Return the links for a ledger that an older version wrote, which had no chain. This reads the whole ledger."""
    head: ChainLink | None = None
    links: dict[tuple[str, int], ChainLink] = {}
    async with connection.cursor() as cursor, cursor.copy(ALL_LINES) as copy:
        async for block in copy:
            for line in _line(bytes(block)):
                for link in changed_links(store_uuid, head, [line]):
                    head = links[link.day, link.place] = link
    return list(links.values())


async def insert_links(connection: psycopg.AsyncConnection, links: Iterable[ChainLink]) -> None:
    """Store new links, in the caller's transaction."""
    async with connection.cursor() as cursor, cursor.copy(COPY_LINKS) as copy:
        for link in links:
            await copy.write_row((link.day, link.place, link.first, link.last, link.count, link.before, link.hash))


def _link(row: TupleRow) -> ChainLink:
    day, place, first, last, count, before, hash_ = row
    return ChainLink(day.isoformat(), place, first, last, count, bytes(before), bytes(hash_))


# ------------------------------------------------------------------------------------------------------------ checking


class Verified(Struct, frozen=True):
    """The result of a check without errors."""

    lines: int
    links: int
    head: ChainLink | None  #: newest link of the chain, also of later days; None if there is none
    first_day: str = ""  #: earliest day of the links, in UTC; empty if there are none
    last_day: str = ""


def verify(
    connection: psycopg.Connection,
    first: date,
    last: date,
    head: ChainLink | None = None,
    known: tuple[int, bytes] | None = None,
) -> Verified:
    """Compare the lines of these days with their links, in one snapshot. Raises LedgerChanged.

    ``head``: the end of the chain in the memory of the running node; the chain must not end before it. ``known``: the
    number of a line of these days, and the hash of the chain after that line, as an earlier check printed it.
    """
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        ((store_uuid,),) = connection.execute("SELECT store_uuid::text FROM semq_meta").fetchall()
        links = [_link(row) for row in connection.execute(LINKS, (first, last))]
        # A half-read COPY would block the next statement.
        with closing(_lines(connection, first, last)) as lines:
            total = _compare(store_uuid, links, lines, known)
        _check_order(connection, links)
        newest_row = connection.execute(NEWEST).fetchone()
    end = None if newest_row is None else _link(newest_row)
    if head is not None and (end is None or end.last < head.last or (end.last == head.last and end.hash != head.hash)):
        raise LedgerChanged("The end of the ledger is missing.", known_to=head.last, found_to=end.last if end else 0)
    days = (min(link.day for link in links), max(link.day for link in links)) if links else ("", "")
    return Verified(total, len(links), end, *days)


def _compare(
    store_uuid: str,
    links: Sequence[ChainLink],
    lines: Iterator[tuple[int, str, bytes]],
    known: tuple[int, bytes] | None,
) -> int:
    total, is_met = 0, known is None
    line = next(lines, None)
    for link in links:
        if line is not None and line[0] < link.first:
            raise LedgerChanged("A line belongs to no link.", day=line[1], number=line[0])
        computed = begin(store_uuid, link.day, link.place, link.first, link.before)
        while line is not None and line[0] <= link.last:
            if line[1] != link.day:
                raise LedgerChanged("A line has another day than its link.", day=line[1], number=line[0])
            computed = add(computed, ((line[0], line[2]),))
            is_met = is_met or (line[0], computed.hash) == known
            line = next(lines, None)
        total += computed.count
        if computed != link:
            raise LedgerChanged(day=link.day, from_number=link.first, to_number=link.last)
    if line is not None:
        raise LedgerChanged("A line belongs to no link.", day=line[1], number=line[0])
    if not is_met:
        raise LedgerChanged("The chain does not contain the known hash.", known=known)
    return total


def _check_order(connection: psycopg.Connection, links: Iterable[ChainLink]) -> None:
    """Check that each link has the hash of the link before it. Raises LedgerChanged."""
    previous: ChainLink | None = None
    for link in links:
        if previous is None or previous.hash != link.before:
            row = connection.execute(BEFORE, (link.first,)).fetchone()
            if link.before != (START if row is None else _link(row).hash):
                raise LedgerChanged("A part of the ledger is missing.", day=link.day, before_number=link.first)
        previous = link


def _lines(connection: psycopg.Connection, first: date, last: date) -> Generator[tuple[int, str, bytes], None, None]:
    query = sql.SQL(
        "COPY (SELECT {} FROM semq_ledger WHERE at >= {} AND at < {} ORDER BY number) TO STDOUT (FORMAT binary)"
    ).format(
        sql.SQL(LINE_COLUMNS),
        sql.Literal(f"{first.isoformat()}T00:00:00Z"),
        sql.Literal(f"{(last + timedelta(1)).isoformat()}T00:00:00Z"),
    )
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for block in copy:
            for number, at, data in _line(bytes(block)):
                yield number, day_name(at // DAY_US), data


def _line(block: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, time (microseconds since 2000) and bytes of the line in a block of COPY, if it has one."""
    data = block.removeprefix(COPY_HEAD)
    if data not in (b"", COPY_END):
        _, _, number, _, at = FIRST_FIELDS(data)
        yield number, at, data
