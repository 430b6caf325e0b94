"""Which versions of the protocol a node speaks, and how two nodes agree on one (row Q20).

Each side says the lowest and the highest version that it speaks; the highest that both speak is used. Within a version,
unknown attributes and fields are tolerated. A peer that says nothing speaks version 1.
"""

from typing import Any

from semq.errors import ProtocolViolation

LOWEST, HIGHEST = 1, 1
PROPERTY = "semq_protocol"  # in the properties that both sides of an AMQP connection exchange


class NoCommonVersion(ProtocolViolation):
    """The two nodes have no version of the protocol in common."""

    code = "SEMQ-1120"
    remedy = "Update the older of the two nodes; versions next to each other always talk."


def offer() -> list[int]:
    """What a node says of itself."""
    return [LOWEST, HIGHEST]


def agree(theirs: Any) -> int:
    """The version to use with a peer that offered ``theirs``; raises NoCommonVersion."""
    lowest, highest = 1, 1
    if isinstance(theirs, list | tuple) and len(theirs) == 2 and all(type(one) is int for one in theirs):
        lowest, highest = theirs
    if lowest > HIGHEST or highest < LOWEST or lowest > highest:
        raise NoCommonVersion(ours=f"{LOWEST}-{HIGHEST}", theirs=f"{lowest}-{highest}")
    return min(highest, HIGHEST)
