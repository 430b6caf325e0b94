"""Addresses of senders and receivers (UMX packet header; AMQP ``app_id`` and routing key).

The text of a node's address is its type and id (``1.56001``); ``/buyer`` after it names a user or application there.
The type ``1.`` may be left out. Types 3 and 4 are for submissions only.
"""

import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from semq.umx_t.errors import BadAddress

_PATTERN = re.compile(r"(?:(?P<type>[0-9]{1,3})\.)?(?P<id>[A-Za-z0-9_-]{1,64})(?:/(?P<user>[A-Za-z0-9_-]{1,64}))?")


class NodeType(IntEnum):
    """The first part of an address. Other numbers are accepted, too, for future types."""

    LOCAL = 1  #: the node of an institution
    PLATFORM = 2  #: the hub
    GROUP = 3  #: institutions named together in the definitions of the hub
    USERS = 4  #: all users whom the definitions name for one institution


class Address(NamedTuple):
    """A node or a group, or a user or application there."""

    type: int
    id: str
    user: str = ""

    def __str__(self) -> str:
        return f"{self.type}.{self.id}/{self.user}" if self.user else f"{self.type}.{self.id}"

    @property
    def node(self) -> "Address":
        """The address of the node alone, without the user."""
        return Address(self.type, self.id) if self.user else self


def is_hub(node: Address) -> bool:
    """Return whether an address belongs to a hub, and not to an institution."""
    return node.type == NodeType.PLATFORM


@lru_cache(maxsize=4096)
def parse_address(text: str) -> Address:
    """Read an address from its text. Raises BadAddress."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise BadAddress(address=text[:80])
    return Address(int(match["type"] or NodeType.LOCAL), match["id"], match["user"] or "")
