"""Locators: LK0 identifies a message permanently, LK1 identifies a stored copy of it (PROTOCOL.md section 2).

LK0 is always carried in full, with the node, because the source in the header of a stored copy is the hub (rule N6).
A store that was restored from a backup has a new incarnation, so it uses no LK0 twice (rule N5).
"""

import re
from functools import lru_cache
from typing import NamedTuple

from semq.umx_t.address import Address
from semq.umx_t.errors import BadLocator

_FRONT = re.compile(r"([0-9]{1,3})\.([A-Za-z0-9_-]{1,64})\.([0-9]{1,9})\.([0-9]{1,9})\.([0-9a-f]{1,16})")
LK0_MAX = 125  # characters
_POS = re.compile(r"([0-9a-f]{1,16})\.([0-9]{1,19})")
INT64_MAX = 2**63 - 1


class LK0(NamedTuple):
    """The source locator: node type, node id, SEMQ id, store id, incarnation and record id. It never changes."""

    type: int
    id: str
    semq_id: int
    semq_db_id: int
    inc: int
    object_id: int

    def __str__(self) -> str:
        return f"{_write_front(self[:5])}{self[5]}"

    @property
    def node(self) -> Address:
        """The node where the message was accepted."""
        return Address(self.type, self.id)

    @property
    def store(self) -> "Store":
        """The store where the message was accepted; with ``inc`` and the destination it names a stream."""
        return Store(self.type, self.id, self.semq_id, self.semq_db_id)


class Store(NamedTuple):
    """A store of rows at a node. Its name consists of the first four parts of an LK0."""

    type: int
    id: str
    semq_id: int = 1
    semq_db_id: int = 1

    def __str__(self) -> str:
        return f"{self.type}.{self.id}.{self.semq_id}.{self.semq_db_id}"

    @property
    def node(self) -> Address:
        """The node that owns the store."""
        return Address(self.type, self.id)


class LK1(NamedTuple):
    """The locator of a copy at the hub: the store of the hub that holds it, and its record id there."""

    semq_id: int
    semq_db_id: int
    object_id: int

    def __str__(self) -> str:
        return f"{self.semq_id}.{self.semq_db_id}.{self.object_id}"


class Pos(NamedTuple):
    """A position in a stream: the incarnation and a dense number from 0 (PROTOCOL.md section 2, ``pos``)."""

    inc: int
    sid: int

    def __str__(self) -> str:
        return f"{self.inc:x}.{self.sid}"


def parse_lk0(text: object) -> LK0:
    """Read a source locator from its text. Raises BadLocator."""
    if isinstance(text, str) and len(text) <= LK0_MAX:
        front, _, number = text.rpartition(".")
        stream = _read_front(front)
        if stream is not None and number.isdigit() and number.isascii() and len(number) <= 19:
            return LK0(*stream, _int64(int(number)))
    raise BadLocator("The source locator LK0 cannot be read.", lk0=str(text)[:120])


# All LK0s from one incarnation of a store begin alike, so the part before the record id is read and written once.
Front = tuple[int, str, int, int, int]


@lru_cache(maxsize=4096)
def _write_front(front: Front) -> str:
    type_, id_, semq_id, semq_db_id, inc = front
    return f"{type_}.{id_}.{semq_id}.{semq_db_id}.{inc:x}."


@lru_cache(maxsize=4096)
def _read_front(text: str) -> Front | None:
    match = _FRONT.fullmatch(text)
    if match is None:
        return None
    type_, id_, semq_id, semq_db_id, inc = match.groups()
    return int(type_), id_, int(semq_id), int(semq_db_id), _int64(int(inc, 16))


def parse_lk1(text: object) -> LK1:
    """Read the locator of a copy at the hub from its text. Raises BadLocator."""
    parts = text.split(".") if isinstance(text, str) else []
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 19 for part in parts):
        raise BadLocator("The locator LK1 cannot be read.", lk1=str(text)[:120])
    semq_id, semq_db_id, object_id = (_int64(int(part)) for part in parts)
    return LK1(semq_id, semq_db_id, object_id)


def parse_pos(text: object) -> Pos:
    """Read a position in a stream from its text. Raises BadLocator."""
    match = _POS.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise BadLocator("The position in a stream cannot be read.", pos=str(text)[:80])
    return Pos(_int64(int(match[1], 16)), _int64(int(match[2])))


def _int64(number: int) -> int:
    if number > INT64_MAX:
        raise BadLocator("A number in the locator does not fit into 63 bits.", number=number)
    return number
