"""The chain of the ledger: every line is hashed into the line before it, in the order of their numbers.

Links cut the chain into pieces: one of at most ``LINES_MAX`` lines of one day, the last of them still growing. A link
starts from the node's store, its day, its place, the number of its first line and the hash of the link before it; each
line is then added as octets (a row of Postgres' binary COPY, in which lines are written and read). So a line that is
changed, missing, added or moved shows in its link, and a link that is missing in the next one.

What the chain cannot show by itself is that its end was cut off, or that somebody who owns the database made all of it
anew. Against that stands what others hold: the head that the running node has in memory and logs, the heads that
``semq ledger verify`` printed earlier, and the signed receipts of partners.

Used by ``semq.store.postgres.chain`` for each commit and each check.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256

from semq.seal.canonical import canonical

START = bytes(32)
LINES_MAX = 1000


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of the chain, as it lies in the table."""

    day: str  #: ISO date, UTC
    place: int  #: in the chain, counts from 1
    first: int  #: number of the first line
    last: int
    count: int  #: of lines
    before: bytes  #: hash of the link before; 32 zero octets for the first of all
    hash: bytes


def begin(store: str, day: str, place: int, first: int, before: bytes) -> Link:
    """A link without a line yet."""
    start = sha256(canonical("semq ledger 1", store, day, place, first, before)).digest()
    return Link(day, place, first, first, 0, before, start)


def add(link: Link, lines: Iterable[tuple[int, bytes | bytearray | memoryview]]) -> Link:
    """The link with more lines: number and octets of each, in order."""
    last, count, hash_ = link.last, link.count, link.hash
    for number, line in lines:
        hash_ = sha256(hash_ + line).digest()
        last, count = number, count + 1
    return Link(link.day, link.place, link.first, last, count, link.before, hash_)
