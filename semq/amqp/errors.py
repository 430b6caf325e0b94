"""The errors of AMQP 0-9-1: one class per reply code of the specification.

    SemqError
    └── AmqpError(reply_code, text, class_id, method_id, blame)
        ├── ChannelException      soft
        ├── ConnectionException   hard
        │   └── Broken
        └── LocalMisuse

Source: AMQP 0-9-1, sections 2.3.6, 4.2 and 4.8.
"""

from enum import Enum
from typing import ClassVar

from semq.errors import SemqError


def clipped(text: str) -> str:
    """Return ``text`` as a valid short string: at most 255 bytes of UTF-8, none of them zero."""
    return text.replace("\0", "?").encode("utf-8", "replace")[:255].decode("utf-8", "ignore")


class Blame(Enum):
    """The side at fault: this one, or the peer."""

    LOCAL = "local"
    REMOTE = "remote"


class AmqpError(SemqError):
    """An AMQP peer and this node could not continue with the request.

    ``class_id`` and ``method_id`` name the method at fault; 0: none.
    """

    code: ClassVar[str] = "SEMQ-4000"
    remedy: ClassVar[str] = "Look at the reply code and the text; class_id and method_id name the method at fault."
    name: ClassVar[str] = "AMQP_ERROR"
    reply_code: int = 0

    def __init__(
        self,
        text: str = "",
        class_id: int = 0,
        method_id: int = 0,
        *,
        blame: Blame = Blame.REMOTE,
        reply_code: int | None = None,
    ) -> None:
        if reply_code is not None:
            self.reply_code = reply_code
        self.class_id = class_id
        self.method_id = method_id
        self.blame = blame
        super().__init__(text, reply_code=self.reply_code, class_id=class_id, method_id=method_id, blame=blame.value)

    @property
    def reply_text(self) -> str:
        """The text on the wire, cut to the 255 bytes of a short string."""
        return clipped(f"{self.name} - {self.text}")

    @property
    def ids(self) -> tuple[int, int]:
        return self.class_id, self.method_id

    def at(self, class_id: int, method_id: int) -> "AmqpError":
        """Return this error with the ids of the method at fault, unless it already has ids."""
        if not self.class_id:
            self.class_id, self.method_id = class_id, method_id
            self.facts.update(class_id=class_id, method_id=method_id)
        return self


class ChannelException(AmqpError):  # noqa: N818 (the name in the specification)
    """One channel was closed; the connection and its other channels remain open."""

    code = "SEMQ-4001"
    remedy = "Open a new channel and correct the request that the text names."
    name = "CHANNEL_EXCEPTION"


class ContentTooLarge(ChannelException):
    """The message is larger than this server accepts."""

    code = "SEMQ-4311"
    remedy = "Send a smaller message, or raise amqp.max_message_bytes (for documents protocol.max_document_bytes)."
    name = "CONTENT_TOO_LARGE"
    reply_code = 311


class NoRoute(ChannelException):
    """The mandatory message cannot be routed to any queue."""

    code = "SEMQ-4312"
    remedy = "Bind a queue to the exchange with a matching key, or publish without mandatory."
    name = "NO_ROUTE"
    reply_code = 312


class NoConsumers(ChannelException):
    """The immediate message cannot be delivered to a consumer now."""

    code = "SEMQ-4313"
    remedy = "Start a consumer, or publish without immediate."
    name = "NO_CONSUMERS"
    reply_code = 313


class AccessRefused(ChannelException):
    """The user is not allowed to do this, or the login was refused."""

    code = "SEMQ-4403"
    remedy = "Check user name, password and the permissions of the user in this virtual host."
    name = "ACCESS_REFUSED"
    reply_code = 403


class NotFound(ChannelException):
    """There is no such exchange, queue or virtual host."""

    code = "SEMQ-4404"
    remedy = "Declare it first, or correct the name."
    name = "NOT_FOUND"
    reply_code = 404


class ResourceLocked(ChannelException):
    """Another connection holds this queue exclusively."""

    code = "SEMQ-4405"
    remedy = "Use the queue on the connection that declared it, or wait until that connection is closed."
    name = "RESOURCE_LOCKED"
    reply_code = 405


class PreconditionFailed(ChannelException):
    """The request conflicts with an existing object, or with an earlier request."""

    code = "SEMQ-4406"
    remedy = (
        "The text states the conflict. Declare with the arguments of the existing object, or delete it first; "
        "acknowledge each delivery once, on its channel; a SEMQ code in the text says what to correct in a document."
    )
    name = "PRECONDITION_FAILED"
    reply_code = 406


class ConnectionException(AmqpError):  # noqa: N818 (the name in the specification)
    """The connection was closed with all its channels."""

    code = "SEMQ-4002"
    remedy = "Connect again; if the error recurs, the text states how the peer violates the specification."
    name = "CONNECTION_EXCEPTION"


class ConnectionForced(ConnectionException):
    """A stop of the node, or an operator, closed the connection; it may be opened again later."""

    code = "SEMQ-4320"
    remedy = "Connect again later; the node is stopping or an operator intervened."
    name = "CONNECTION_FORCED"
    reply_code = 320


class InvalidPath(ConnectionException):
    """The client asked for a virtual host that does not exist."""

    code = "SEMQ-4402"
    remedy = "Correct the virtual host in the address of the connection."
    name = "INVALID_PATH"
    reply_code = 402


class FrameError(ConnectionException):
    """The peer sent a malformed frame."""

    code = "SEMQ-4501"
    remedy = "Check that the peer uses AMQP 0-9-1 and observes the negotiated frame-max."
    name = "FRAME_ERROR"
    reply_code = 501


class SyntaxFault(ConnectionException):
    """The peer sent a field with an illegal value."""

    code = "SEMQ-4502"
    remedy = "Correct the value in the client: names are UTF-8 without zero bytes, tables contain known types only."
    name = "SYNTAX_ERROR"
    reply_code = 502


class CommandInvalid(ConnectionException):
    """The peer sent a method that is not allowed at this point."""

    code = "SEMQ-4503"
    remedy = "Check the client library; the method is not allowed in this state or this direction."
    name = "COMMAND_INVALID"
    reply_code = 503


class ChannelError(ConnectionException):
    """The peer used a channel that is not open, or opened one twice."""

    code = "SEMQ-4504"
    remedy = "Check that the client opens a channel before use and shares none between threads."
    name = "CHANNEL_ERROR"
    reply_code = 504


class UnexpectedFrame(ConnectionException):
    """The peer sent a frame out of order, usually inside the content of a message."""

    code = "SEMQ-4505"
    remedy = "Check that the client does not publish on one channel from several threads at once."
    name = "UNEXPECTED_FRAME"
    reply_code = 505


class ResourceError(ConnectionException):
    """This server lacks the resources for the request."""

    code = "SEMQ-4506"
    remedy = "Repeat later, or raise the limit that the text names."
    name = "RESOURCE_ERROR"
    reply_code = 506


class NotAllowed(ConnectionException):
    """The server forbids the request of the client."""

    code = "SEMQ-4530"
    remedy = "Check virtual host, permissions and the negotiated limits."
    name = "NOT_ALLOWED"
    reply_code = 530


class NotSupported(ConnectionException):
    """The client used a method or option that this server does not have."""

    code = "SEMQ-4540"
    remedy = "Use methods of AMQP 0-9-1 and of the extensions that the server announces."
    name = "NOT_IMPLEMENTED"
    reply_code = 540


class InternalError(ConnectionException):
    """This server had an internal error."""

    code = "SEMQ-4541"
    remedy = "Look at the log of the server at the time of the error."
    name = "INTERNAL_ERROR"
    reply_code = 541


class Broken(ConnectionException):
    """The connection ended without a close handshake."""

    code = "SEMQ-4901"
    name = "CONNECTION_BROKEN"
    reply_code = 320


class PeerSilent(Broken):
    """The peer has sent nothing for two heartbeat intervals."""

    code = "SEMQ-4902"
    remedy = "Check the network and the load of the peer, or agree on a longer heartbeat."
    name = "PEER_SILENT"


class PeerGone(Broken):
    """The peer closed the socket without closing the connection."""

    code = "SEMQ-4903"
    name = "PEER_GONE"


class TooSlow(Broken):
    """The peer did not finish the negotiation or the close in time."""

    code = "SEMQ-4904"
    remedy = "Check that the peer uses AMQP 0-9-1 on this port, and check the network between the two."
    name = "TOO_SLOW"


class WrongProtocol(Broken):
    """The peer uses another protocol or another version of AMQP."""

    code = "SEMQ-4905"
    remedy = "Use AMQP 0-9-1 on this port; for TLS use the TLS port."
    name = "WRONG_PROTOCOL"


class LocalMisuse(AmqpError):  # noqa: N818 (the name states whose error it is)
    """The program requested something from the AMQP layer that the protocol forbids in this state; nothing was sent."""

    code = "SEMQ-4900"
    remedy = "Correct the program that uses the connection; the peer has done nothing wrong."
    name = "LOCAL_MISUSE"
    reply_code = 541

    def __init__(self, text: str) -> None:
        super().__init__(text, blame=Blame.LOCAL)


SOFT: tuple[type[ChannelException], ...] = (
    ContentTooLarge,
    NoRoute,
    NoConsumers,
    AccessRefused,
    NotFound,
    ResourceLocked,
    PreconditionFailed,
)
HARD: tuple[type[ConnectionException], ...] = (
    ConnectionForced,
    InvalidPath,
    FrameError,
    SyntaxFault,
    CommandInvalid,
    ChannelError,
    UnexpectedFrame,
    ResourceError,
    NotAllowed,
    NotSupported,
    InternalError,
)
BY_CODE: dict[int, type[AmqpError]] = {error.reply_code: error for error in (*SOFT, *HARD)}


def by_code(
    reply_code: int, text: str, class_id: int = 0, method_id: int = 0, *, blame: Blame, level: type[AmqpError]
) -> AmqpError:
    """Return the error that a close method names; for an unknown code, an instance of ``level``."""
    error_class = BY_CODE.get(reply_code)
    if error_class is not None:
        return error_class(text, class_id, method_id, blame=blame)
    return level(text, class_id, method_id, blame=blame, reply_code=reply_code)
