"""The events that a connection reports to its owner, one class per kind.

Docstrings that begin with "S:" or "C:" are about events of servers or clients only.
"""

from msgspec import Struct

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError
from semq.amqp.methods import BasicDeliver, BasicGetOk, BasicPublish, BasicReturn, Method
from semq.amqp.wire import Table


class ConnectionEvent(Struct):
    """An event of a connection."""


# Negotiation


class LoginOffered(ConnectionEvent):
    """S: connection.start-ok. Answer with ``accept_login`` or ``refuse_login``."""

    mechanism: str
    response: bytes
    client_properties: Table
    locale: str


class Started(ConnectionEvent):
    """C: connection.start; the login is in the output."""

    server_properties: Table
    mechanisms: tuple[str, ...]
    locales: tuple[str, ...]


class Tuned(ConnectionEvent):
    """The limits of both directions: bytes, highest channel number, seconds; 0 for none."""

    frame_max: int
    channel_max: int
    heartbeat: int


class OpenRequested(ConnectionEvent):
    """S: connection.open. Answer with ``accept_open`` or ``connection_error``."""

    virtual_host: str


class Opened(ConnectionEvent):
    """C: connection.open-ok."""


# Connection


class ConnectionFailed(ConnectionEvent):
    """The peer made an error. S, on an open connection: answer with ``connection_error``. Otherwise this side has sent
    connection.close, and only close-ok is awaited.

    ``pause``: the negotiation was not finished, so delay the output for some seconds (4.10.2).
    """

    error: AmqpError
    pause: bool


class ConnectionClosed(ConnectionEvent):
    """The connection has ended: write the output of ``take_output``, then close the socket.

    ``error`` is None after an orderly close. ``pause``: as in ``ConnectionFailed``.
    """

    error: AmqpError | None
    by_peer: bool
    pause: bool


class CloseRequested(ConnectionEvent):
    """S: connection.close. Answer with ``accept_close``. ``error`` is None for reply code 200."""

    error: AmqpError | None


class Blocked(ConnectionEvent):
    """C: connection.blocked."""

    reason: str


class Unblocked(ConnectionEvent):
    """C: connection.unblocked."""


class SecretOffered(ConnectionEvent):
    """S: connection.update-secret. Answer with ``accept_secret`` or ``connection_error``."""

    new_secret: bytes
    reason: str


# Channels


class ChannelOpened(ConnectionEvent):
    """S: a channel was opened, and open-ok has been sent. C: open-ok has arrived."""

    channel: int


class ChannelClosed(ConnectionEvent):
    """The channel is closed. ``error`` is None for reply code 200.

    ``by_peer``: the peer sent channel.close; S: answer with ``accept_channel_close``. Otherwise the peer made an error:
    S: answer with ``channel_error``; C: channel.close has been sent. The number is free again at ``ChannelReleased``.
    """

    channel: int
    by_peer: bool
    error: AmqpError | None


class ChannelReleased(ConnectionEvent):
    """channel.close-ok has arrived."""

    channel: int


class FlowChanged(ConnectionEvent):
    """channel.flow: stop or resume sending content. S: answer with channel.flow-ok; C: it has been sent."""

    channel: int
    active: bool


class MethodReceived(ConnectionEvent):
    """A method without an event of its own; methods of the connection have channel 0."""

    channel: int
    method: Method


# Methods with complete contents


class Published(ConnectionEvent):
    """S: basic.publish."""

    channel: int
    exchange: str
    routing_key: str
    mandatory: bool
    immediate: bool
    header: ContentHeader
    body: bytes


class Delivered(ConnectionEvent):
    """C: basic.deliver."""

    channel: int
    consumer_tag: str
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    header: ContentHeader
    body: bytes


class Returned(ConnectionEvent):
    """C: basic.return."""

    channel: int
    reply_code: int
    reply_text: str
    exchange: str
    routing_key: str
    header: ContentHeader
    body: bytes


class Got(ConnectionEvent):
    """C: basic.get-ok."""

    channel: int
    delivery_tag: int
    redelivered: bool
    exchange: str
    routing_key: str
    message_count: int
    header: ContentHeader
    body: bytes


# Contents in chunks (bodies of at least ConnectionLimits.stream_from bytes)


class ContentStarted(ConnectionEvent):
    """A large content begins; ``header.body_size`` bytes follow as ``BodyChunk``, then ``ContentFinished``, unless the
    channel or the connection closes."""

    channel: int
    method: BasicPublish | BasicDeliver | BasicReturn | BasicGetOk
    header: ContentHeader


class BodyChunk(ConnectionEvent):
    """The next bytes of the body."""

    channel: int
    data: bytes


class ContentFinished(ConnectionEvent):
    """The body is complete."""

    channel: int


# Acknowledgements of deliveries (S) and of publishes (C)


class Acked(ConnectionEvent):
    """basic.ack, for one delivery tag or for all up to it (``multiple``)."""

    channel: int
    delivery_tag: int
    multiple: bool


class Nacked(ConnectionEvent):
    """basic.nack; ``multiple`` as in ``Acked``."""

    channel: int
    delivery_tag: int
    multiple: bool
    requeue: bool


class Rejected(ConnectionEvent):
    """S: basic.reject."""

    channel: int
    delivery_tag: int
    requeue: bool
