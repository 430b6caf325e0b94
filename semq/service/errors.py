"""Errors of requests to a node: the answers to a request whose operation cannot be run."""

from semq.errors import BadInput, Unavailable


class UnknownOperation(BadInput):
    """The operation is unknown to this node."""

    code = "SEMQ-2101"
    remedy = (
        "`semq call --list` lists the operations of a node. Some belong to the platform node, some to local nodes; "
        "otherwise compare the versions of the command line and the node (`semq version`, `semq node status`)."
    )


class BadArguments(BadInput):
    """The arguments of the operation are wrong."""

    code = "SEMQ-2102"


class Busy(Unavailable):
    """This user has too many requests in progress."""

    code = "SEMQ-2103"
    remedy = "Wait for their answers, then ask again."
