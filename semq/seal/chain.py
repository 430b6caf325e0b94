"""The chain of the ledger: each commit adds one link for each day it wrote lines of, over these and the link before.

A link binds the node's store, the day, its place in the day, the numbers of its lines and the lines as octets (the row
format of Postgres' binary COPY, in which they are written and read). The first link of a day follows the last link of
the day before that was known, so a day cannot be cut short without a trace as soon as the next one has begun. Who can
change the database can make a whole new chain: it is anchored by heads that others hold (the node's log, the daily
extract, whoever ran ``semq ledger verify``) and by the signed receipts of partners.

Called by the store's writer for each commit, and by ``semq.store.proving`` for each link that is verified.
"""

from dataclasses import dataclass
from hashlib import sha256

from semq.seal.canonical import canonical

START = bytes(32)


@dataclass(frozen=True, slots=True)
class Link:
    """One link, as it lies in the table."""

    day: str  #: ISO date, UTC
    place: int  #: in the day, counts from 1
    first: int  #: number of the first line
    last: int
    count: int  #: of lines
    before: bytes  #: hash of the link before; 32 zero octets for the first of all
    hash: bytes


def link(store: str, day: str, before: "Link | None", lines: bytes, first: int, last: int, count: int) -> Link:
    """The next link after ``before`` (of this day, or of the last day that has one); ``lines`` are the rows' octets."""
    place = before.place + 1 if before is not None and before.day == day else 1
    previous = START if before is None else before.hash
    return Link(
        day, place, first, last, count, previous, link_hash(store, day, place, first, last, count, previous, lines)
    )


def link_hash(
    store: str, day: str, place: int, first: int, last: int, count: int, before: bytes, lines: bytes
) -> bytes:
    """The hash of a link."""
    body = sha256(lines).digest()
    return sha256(canonical("semq ledger 1", store, day, place, first, last, count, before, body)).digest()
