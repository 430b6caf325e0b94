"""Versions of the protocol, and how two nodes agree on one."""

from semq.errors import ProtocolViolation

LOWEST, HIGHEST = 1, 2
PACKED_SINCE = 2  # first version with ``packed_envelope``
# Names of properties that both sides of an AMQP connection exchange.
PROPERTY = "semq_protocol"  # the offer of versions
DATAGRAMS_PROPERTY = "semq_datagrams"  # the version of datagram channels (1); absent if the node accepts none


class NoCommonVersion(ProtocolViolation):
    """The two nodes have no version of the protocol in common."""

    code = "SEMQ-1120"
    remedy = "Update the older of the two nodes; adjacent releases always have a version in common."


def offer() -> list[int]:
    """Return the lowest and the highest supported version, as sent to a peer."""
    return [LOWEST, HIGHEST]


def agree(theirs: object) -> int:
    """Return the highest common version with a peer. Raises NoCommonVersion.

    ``theirs``: the offer of the peer; any value other than a pair of numbers means version 1 only.
    """
    lowest, highest = 1, 1
    if isinstance(theirs, list | tuple) and len(theirs) == 2 and all(type(number) is int for number in theirs):
        lowest, highest = theirs
    if lowest > HIGHEST or highest < LOWEST or lowest > highest:
        raise NoCommonVersion(ours=f"{LOWEST}-{HIGHEST}", theirs=f"{lowest}-{highest}")
    return min(highest, HIGHEST)
