"""What an application can meet when it talks to its node. Codes 1300–1399; what the node itself refuses keeps the
node's code.

SemqError
├── BadInput
│   ├── RefusedByNode    the node says no: ``code``, ``text`` and ``remedy`` are the node's
│   └── NeverTold        nobody tells this node whether the document is delivered
├── Unavailable
│   ├── NodeUnreachable  no connection came about in the time given
│   ├── NoAnswer         asked, and not answered in the time given
│   ├── NodeBusy         the node says "not now": ``code``, ``text`` and ``remedy`` are the node's
│   ├── AlreadyGone      the connection over which a document came has ended
│   └── NotYetKnown      a document has no outcome yet
├── Misconfigured
│   ├── BadUrl           the address of the node cannot be read
│   └── LoginRefused     user, password or virtual host
└── NotDelivered         a document ended, and not at its target
"""

from collections.abc import Mapping
from typing import Any

from semq.errors import BadInput, Misconfigured, SemqError, Unavailable


class BadUrl(Misconfigured):
    """The address of the node cannot be read."""

    code = "SEMQ-1301"
    remedy = (
        "Write amqp://user:password@host:port, or amqps:// for TLS; the virtual host may follow, it is / by default."
    )


class LoginRefused(Misconfigured):
    """The node does not let this user in."""

    code = "SEMQ-1302"
    remedy = (
        "Compare user and password with [amqp.users] in the configuration of the node; guest serves on the node's own "
        "machine only, and only where no users are configured."
    )


class NodeUnreachable(Unavailable):
    """The node cannot be reached."""

    code = "SEMQ-1310"
    remedy = "Check that the node runs and the address is right (`semq doctor --config FILE`); repeating is safe."


class NoAnswer(Unavailable):
    """The node did not answer in the time that was given."""

    code = "SEMQ-1311"
    remedy = "Look at the log of the node; repeating is safe, a document with the same token is accepted once."


class AlreadyGone(Unavailable):
    """The connection over which the document came has ended; the node gives the document again."""

    code = "SEMQ-1312"
    remedy = "Drop what was done for it or make it repeatable: the document comes again, marked as redelivered."


class NotYetKnown(Unavailable):
    """The document has no outcome yet; it is on its way or stored, it has not failed."""

    code = "SEMQ-1313"
    remedy = "Wait again with the same locator; `semq msg trace` tells how far it has come."


class NotDelivered(SemqError):
    """The document has ended, and not at its target."""

    code = "SEMQ-1320"
    remedy = (
        "The reason names what to correct; `semq msg trace` shows the whole way. What was refused keeps its body: "
        "`semq failed list`."
    )


class _Theirs(SemqError):
    """An error that the node reported: it keeps the node's code, words and remedy."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        code, remedy = error.get("code"), error.get("remedy")
        super().__init__(str(error.get("text", "")), **error.get("facts", {}))
        # An instance may speak for the class of the node's error, which is not at home in this library.
        self.code = str(code or type(self).code)  # type: ignore[misc]
        self.remedy = str(remedy or type(self).remedy)  # type: ignore[misc]


class RefusedByNode(_Theirs, BadInput):
    """The node refused the request; nothing was changed."""

    code = "SEMQ-1303"
    remedy = "Correct the request and repeat."


class NodeBusy(_Theirs, Unavailable):
    """The node cannot do it now."""

    code = "SEMQ-1314"
    remedy = "Repeat later; the same token makes a repeat safe."


class NeverTold(BadInput):
    """Nobody tells this node whether the document is delivered: it asks for no receipt, or another node has sent it."""

    code = "SEMQ-1304"
    remedy = (
        "Send it with @SaveFwd=3, or with @Ack2=1 (`--ack2`), where its delivery has to be known. `semq msg trace` at "
        "its sender asks the platform and the receiver what they know of it now."
    )


def theirs(error: Mapping[str, Any]) -> RefusedByNode | NodeBusy:
    """The error that a node describes in an answer: refused, or only not now."""
    return NodeBusy(error) if error.get("retry") else RefusedByNode(error)
