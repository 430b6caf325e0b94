"""Errors of requests that a node cannot answer, or answers only in part; and the error of an AMQP port in use."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from semq.errors import BadInput, Misconfigured, Unavailable


class UnknownOperation(BadInput):
    """The operation is unknown to this node."""

    code = "SEMQ-2101"
    remedy = (
        "`semq call --list` lists the operations of a node. Hubs and local nodes have different operations; if this is "
        "the right kind of node, compare the versions of the command line and the node (`semq version`, "
        "`semq node status`)."
    )


class BadArguments(BadInput):
    """The arguments of the operation are wrong."""

    code = "SEMQ-2102"
    remedy = "Correct the argument and repeat; `semq call --list OPERATION` lists the arguments of an operation."


class Busy(Unavailable):
    """This user has too many requests in progress."""

    code = "SEMQ-2103"
    remedy = "Wait for the answers to the earlier requests, then repeat the request."


class StoresUnreached(Unavailable):
    """The answer lacks the named stores, which could not be asked."""

    code = "SEMQ-2104"
    remedy = (
        "`semq hub instances` shows which instance serves each store. Start that instance and repeat the request. "
        "No row of these stores is lost."
    )
    result: Any = None  #: the answer without these stores


class PersonLacksRole(BadInput):
    """The user of this name lacks the role that the operation needs."""

    code = "SEMQ-2105"
    remedy = "`semq user roles NAME --role ROLE` gives a role; `semq user enable NAME` enables a disabled user."


class FileFailed(Unavailable):
    """A file of the node could not be read or written; the operation may have done a part of its work."""

    code = "SEMQ-2106"
    remedy = "Make room on the disk of the file, or correct its permissions, then repeat the operation."


@contextmanager
def file_errors() -> Iterator[None]:
    """Raise FileFailed for an error of the system that names a file."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise
        raise FileFailed(file=str(error.filename), reason=error.strerror) from error


class PortTaken(Misconfigured):
    """The AMQP port is in use or not permitted."""

    code = "SEMQ-2003"
    remedy = "Stop the program that uses the port, or set amqp.port to another port (0 selects a free port)."
