"""One channel: its state, the content arriving on it, and the content being sent on it.

Source: AMQP 0-9-1, 4.2.6 and 4.6.
"""

from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from semq.amqp.connection.states import ChannelState
from semq.amqp.content import ContentHeader
from semq.amqp.errors import CommandInvalid, ContentTooLarge, ResourceError, UnexpectedFrame
from semq.amqp.events import (
    Acked,
    BodyChunk,
    ConnectionEvent,
    ContentFinished,
    ContentStarted,
    Delivered,
    Got,
    MethodReceived,
    Nacked,
    Published,
    Rejected,
    Returned,
)
from semq.amqp.frames import Pieces
from semq.amqp.limits import ConnectionLimits
from semq.amqp.methods import (
    BasicAck,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    BasicReturn,
    Method,
)
from semq.amqp.spec import ROWS

ContentMethod: TypeAlias = BasicPublish | BasicDeliver | BasicReturn | BasicGetOk

# Constructors of the events for complete contents: (channel, *arguments of the method, header, body).
CONTENT_EVENTS: dict[type[Method], Callable[..., ConnectionEvent]] = {
    BasicPublish: Published,
    BasicDeliver: Delivered,
    BasicReturn: Returned,
    BasicGetOk: Got,
}
# Methods without content that have their own events; the others are reported as MethodReceived.
METHOD_EVENTS: dict[type[Method], Callable[..., ConnectionEvent]] = {
    BasicAck: Acked,
    BasicNack: Nacked,
    BasicReject: Rejected,
}
REPLIES = frozenset(reply for row in ROWS.values() for reply in row.replies)


def event_of(number: int, method: Method) -> ConnectionEvent:
    """Return the event for a method without content."""
    event_class = METHOD_EVENTS.get(type(method))
    return MethodReceived(number, method) if event_class is None else event_class(number, *_arguments(method))


def content_event(
    number: int, method: ContentMethod, header: ContentHeader, body: bytes | memoryview
) -> ConnectionEvent:
    """Return the event for a complete content."""
    return CONTENT_EVENTS[type(method)](number, *_arguments(method), header, body)


def _arguments(method: Method) -> list[object]:
    return [getattr(method, name) for name in method.__struct_fields__]


class Budget:
    """The sum of the declared sizes of all bodies that are being assembled on one connection, in bytes."""

    __slots__ = ("used",)

    def __init__(self) -> None:
        self.used = 0


class ArrivingContent:
    """A message whose method has arrived and whose content is incomplete."""

    __slots__ = ("header", "method", "missing", "pieces", "streamed")

    def __init__(self, method: ContentMethod) -> None:
        self.method = method
        self.header: ContentHeader | None = None
        self.missing = 0  # bytes of the body that have not arrived
        self.pieces = Pieces()
        self.streamed = False  # the body is reported in chunks as it arrives


class Channel:
    """One channel of a connection."""

    __slots__ = ("arriving", "awaited", "body_size_due", "budget", "flowing", "held_output", "number", "state")

    def __init__(self, number: int, state: ChannelState, budget: Budget) -> None:
        self.number = number
        self.budget = budget
        self.state = state
        self.arriving: ArrivingContent | None = None
        self.awaited: deque[tuple[str, ...]] = deque()  # for each unanswered request, the replies that may answer it
        self.flowing = True  # False while the peer has stopped content of this side by channel.flow
        self.body_size_due = 0  # bytes of a started body that send_chunk has not sent yet
        self.held_output: list[bytes | memoryview] = []  # output that must be sent after that body

    # Requests and replies

    def await_reply(self, method: Method) -> None:
        """Record the replies that may answer a request being sent."""
        if method.row.replies and not getattr(method, "no_wait", False):
            self.awaited.append(method.row.replies)

    def match_reply(self, method: Method) -> None:
        """Check that a received method, if it is a reply, answers the oldest request. Raises ``CommandInvalid``."""
        if method.row.name not in REPLIES:
            return
        if not self.awaited or method.row.name not in self.awaited[0]:
            raise CommandInvalid(f"{method.row.name} answers no request", *method.ids)
        self.awaited.popleft()

    # Arriving contents

    def check_idle(self) -> None:
        """Check that no content is incomplete. Raises ``UnexpectedFrame``."""
        if self.arriving is not None:
            due = "header" if self.arriving.header is None else "body"
            raise UnexpectedFrame(f"a method arrived where a content {due} was expected", *self.arriving.method.ids)

    def begin(self, method: ContentMethod) -> None:
        self.arriving = ArrivingContent(method)

    def add_header(self, payload: bytes, limits: ConnectionLimits) -> list[ConnectionEvent]:
        """Process a content header and return the events.

        Raises ``UnexpectedFrame``, ``FrameError`` or ``SyntaxFault`` for a wrong header; ``ContentTooLarge`` for a
        large body; ``ResourceError`` if all arriving bodies together are too large.
        """
        content = self.arriving
        if content is None or content.header is not None:
            raise UnexpectedFrame("a content header arrived where none was expected")
        header = ContentHeader.parse(payload, limits.table_depth)
        if header.body_size > limits.body_max:
            raise ContentTooLarge(f"a body of {header.body_size} bytes exceeds {limits.body_max}", *content.method.ids)
        content.header, content.missing = header, header.body_size
        if limits.stream_from is not None and header.body_size >= limits.stream_from:
            content.streamed = True
            started = ContentStarted(self.number, content.method, header)
            return [started] if content.missing else [started, *self._finish(content, header, b"")]
        if self.budget.used + header.body_size > limits.arriving_max:
            text = f"the bodies that are arriving exceed {limits.arriving_max} bytes together"
            raise ResourceError(text, *content.method.ids)
        self.budget.used += header.body_size
        return [] if content.missing else self._finish(content, header, b"")

    def add_body(self, buffer: bytes, start: int, stop: int) -> list[ConnectionEvent]:
        content = self.arriving
        if content is None or content.header is None:
            raise UnexpectedFrame("a content body arrived where none was expected")
        content.missing -= stop - start
        if content.missing < 0:
            raise UnexpectedFrame(f"the body is longer than {content.header.body_size} bytes", *content.method.ids)
        if content.streamed:
            events: list[ConnectionEvent] = [BodyChunk(self.number, buffer[start:stop])]
            return events if content.missing else events + self._finish(content, content.header, b"")
        if not content.pieces.size and not content.missing:
            return self._finish(content, content.header, buffer[start:stop])
        content.pieces.add(buffer, start, stop)
        return [] if content.missing else self._finish(content, content.header, content.pieces.join())

    def _finish(self, content: ArrivingContent, header: ContentHeader, body: bytes) -> list[ConnectionEvent]:
        self.drop_content()
        if content.streamed:
            return [ContentFinished(self.number)]
        return [content_event(self.number, content.method, header, body)]

    def drop_content(self) -> None:
        """Stop collecting the arriving content."""
        content, self.arriving = self.arriving, None
        if content is not None and content.header is not None and not content.streamed:
            self.budget.used -= content.header.body_size
