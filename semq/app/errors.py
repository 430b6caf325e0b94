"""Errors of the library, codes 1300–1399. A refusal by the node keeps the node's code.

SemqError
├── BadInput
│   ├── RefusedByNode
│   └── NoReceiptRequested
├── Unavailable
│   ├── NodeUnreachable
│   ├── NoAnswer
│   ├── NodeBusy
│   ├── IncompleteAnswer
│   ├── AlreadyGone
│   ├── NotYetKnown
│   └── BodyNotKept
├── Misconfigured
│   ├── BadUrl
│   └── LoginRefused
├── UnreadableAnswer
└── NotDelivered

``handlers`` has the errors of the worker (1330–1332).
"""

from collections.abc import Mapping
from typing import Any

from semq.errors import BadInput, Misconfigured, SemqError, Unavailable

STORES_UNREACHED = "SEMQ-2104"


class BadUrl(Misconfigured):
    """The address of the node cannot be read."""

    code = "SEMQ-1301"
    remedy = (
        "Write amqp://user:password@host:port, or amqps:// for TLS; the virtual host may follow, it is / by default."
    )


class LoginRefused(Misconfigured):
    """The node refused the login."""

    code = "SEMQ-1302"
    remedy = (
        "Compare user and password with [amqp.users] of the node; after a change, the former ones are valid until a "
        "restart or a reload (`kill -HUP PID`). Its log (the broker logfile) has the reason: `refused a login`. guest: "
        "only locally, without users."
    )


class NodeUnreachable(Unavailable):
    """The node cannot be reached."""

    code = "SEMQ-1310"
    remedy = "Check that the node runs and the address is right (`semq doctor --config FILE`); repeating is safe."


class NoAnswer(Unavailable):
    """The node did not answer within the time limit."""

    code = "SEMQ-1311"
    remedy = "Look at the log of the node; repeating is safe: a document with the same token is accepted once."


class UnreadableAnswer(SemqError):
    """The answer of the node has another form than this version expects."""

    code = "SEMQ-1317"
    remedy = "Use the command line of the node's version (`semq version`, `semq --json node status`)."


class AlreadyGone(Unavailable):
    """The connection that delivered the document has ended; the node delivers the document again."""

    code = "SEMQ-1312"
    remedy = (
        "Undo the work done for it, or make that work repeatable: the document arrives again, marked as redelivered."
    )


class NotYetKnown(Unavailable):
    """The time to wait has ended before the document had an outcome; it has not failed, and its delivery continues."""

    code = "SEMQ-1313"
    remedy = (
        "The node has the document: do not send it again. `semq msg wait NAME` waits longer, `semq msg trace NAME` "
        "shows how far it has come, `semq stuck explain NAME` what it waits for."
    )


class BodyNotKept(Unavailable):
    """A large body has arrived, but could not be written to a temporary file."""

    code = "SEMQ-1316"
    remedy = (
        "Free space in the folder for temporary files of this program, or select another one by TMPDIR. The node "
        "delivers a document again after a minute, and parks it after 20 deliveries (`semq failed requeue`)."
    )


class NotDelivered(SemqError):
    """The document has ended without delivery."""

    code = "SEMQ-1320"
    remedy = (
        "The reason names what to correct; `semq msg trace` shows its history. A refused document keeps its body: "
        "`semq failed list`."
    )


class _NodeError(SemqError):
    """An error reported by the node, with the node's code, text and remedy."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        code, remedy = error.get("code"), error.get("remedy")
        super().__init__(str(error.get("text", "")), **error.get("facts", {}))
        # Code and remedy are those of the node's error class, which this library does not have.
        self.code = str(code or type(self).code)  # type: ignore[misc]
        self.remedy = str(remedy or type(self).remedy)  # type: ignore[misc]


class RefusedByNode(_NodeError, BadInput):
    """The node refused the request; nothing was changed."""

    code = "SEMQ-1303"
    remedy = "Correct the request and repeat."


class NodeBusy(_NodeError, Unavailable):
    """The node cannot do this now."""

    code = "SEMQ-1314"
    remedy = "Repeat later; the same token makes a repeat safe."


class IncompleteAnswer(_NodeError, Unavailable):
    """The answer is incomplete: some stores of the hub could not be asked."""

    code = "SEMQ-1315"
    remedy = "`semq hub instances` shows the instance of each store; repeat when all of them run."

    def __init__(self, error: Mapping[str, object], result: object) -> None:
        super().__init__(error)
        self.result = result  #: answer of the stores that were reached; None: they found nothing


class NoReceiptRequested(BadInput):
    """This node never learns the outcome: the document requests no receipt, or was sent by another node."""

    code = "SEMQ-1304"
    remedy = (
        "Send it with @SaveFwd=3, or with @Ack2=1 (`--ack2`), if its delivery must be known. `semq msg trace` at "
        "its sender asks the hub and the receiver for its present state."
    )


def node_error(error: Mapping[str, object], result: object = None) -> RefusedByNode | NodeBusy | IncompleteAnswer:
    """Return the error that a node describes in an answer. ``result``: see IncompleteAnswer."""
    if error.get("code") == STORES_UNREACHED:
        return IncompleteAnswer(error, result)
    return NodeBusy(error) if error.get("retry") else RefusedByNode(error)
