"""The chain of the ledger: a running hash over all lines, in the order of their numbers.

The chain is divided into links. Each link covers at most ``LINES_MAX`` lines of one day; the last link is still
growing. A line that is changed, missing, added or moved shows in its link; a missing link shows in the next link.

The chain alone cannot show that its end was cut off, or that a person with access to the database rebuilt it. Evidence
outside the database can: the head that the running node keeps in memory and logs, the heads that ``semq ledger verify``
printed earlier, and the signed receipts of partners.
"""

from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

from semq.seal.canonical import canonical

START = bytes(32)  # takes the place of a previous link's hash in the first link
LINES_MAX = 1000  # lines of one link


class ChainLink(Struct, frozen=True):
    """A section of the chain, as stored in ``semq_chain``."""

    day: str  #: ISO date, UTC
    place: int  #: position in the chain, counted from 1
    first: int  #: number of the first line
    last: int  #: number of the last line; equal to ``first`` in a link without lines
    count: int  #: number of lines
    before: bytes  #: hash of the previous link; 32 zero bytes for the first link
    hash: bytes


def begin(store: str, day: str, place: int, first: int, before: bytes) -> ChainLink:
    """Return a new link without lines."""
    start = sha256(canonical("semq ledger 1", store, day, place, first, before)).digest()
    return ChainLink(day, place, first, first, 0, before, start)


def add(link: ChainLink, lines: Iterable[tuple[int, bytes | bytearray | memoryview]]) -> ChainLink:
    """Return the link with more lines: number and bytes of each (a row of Postgres' binary COPY), in order."""
    last, count, hash_ = link.last, link.count, link.hash
    for number, line in lines:
        hash_ = sha256(hash_ + line).digest()
        last, count = number, count + 1
    return ChainLink(link.day, link.place, link.first, last, count, link.before, hash_)
