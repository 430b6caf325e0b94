"""AMQP 0-9-1 without IO, for clients and servers: received bytes become events, commands become bytes to send.

The owner (``semq.transport``, for servers with ``semq.broker``) has the socket and the clock; times are passed in as
``now``, seconds of any monotonic clock.

**Life of a connection**

    connection = ServerConnection(limits, server_properties=…, mechanisms=("PLAIN", "AMQPLAIN"))
    connection = ClientConnection(limits, mechanism="PLAIN", response=sasl.plain(user, password), virtual_host="/",
                                  client_properties=…)
    connection.start(now)                      # client: queues the protocol header; both: starts the handshake timeout
    events = connection.receive(data, now)     # data: bytes as they arrive; errors of the peer become events
    events = connection.receive_eof(now)       # the peer closed the socket
    events = connection.tick(now)              # at or after next_deadline: heartbeats, silent or slow peers
    when = connection.next_deadline            # float | None, on the same clock
    pieces = connection.take_output()          # list[bytes | memoryview] for writelines; call it after every other call
    size = connection.output_size              # bytes waiting for take_output

Attributes to read: ``is_open``, ``is_closed``, ``frame_max``, ``channel_max``, ``heartbeat`` (as negotiated),
``peer_properties``, ``peer_capabilities`` (frozenset of the names that the peer announces as true), ``payload_max``
(largest payload of a sent frame, in bytes), ``may_send_content(channel)`` (False while the peer has stopped contents by
channel.flow, or while a body sent by ``send_chunk`` is incomplete). Do not call ``receive`` while ``output_size`` is
larger than the memory you can spare: TCP then slows down a peer that sends requests without reading the replies.

**Negotiation, server**: answer ``LoginOffered`` with ``accept_login()`` or ``refuse_login(text)``, and
``OpenRequested`` with ``accept_open()`` or ``connection_error(exc)``; ``Tuned`` needs no answer. An answer may be given
at any time before the handshake times out; until the answer the client may send only heartbeats and connection.close.
``sasl`` reads PLAIN, AMQPLAIN and EXTERNAL. On an open connection, answer ``SecretOffered`` with ``accept_secret()``.

**Negotiation, client**: ``Started``, ``Tuned`` and ``Opened`` need no answer.

**Commands, both roles**: they queue output, or raise ``LocalMisuse`` (nothing sent) if the protocol forbids them now.

    send(channel, method)                             a method without content that has no command of its own here
    publish(channel, exchange, routing_key, header, body, mandatory=False, immediate=False)                 client
    deliver(channel, consumer_tag, delivery_tag, redelivered, exchange, routing_key, header, body)          server
    send_content(channel, method, header, body)       any method with content, for instance BasicReturn, BasicGetOk
    start_content(channel, method, header)            header.body_size bytes must follow by send_chunk; meanwhile all
    send_chunk(channel, data)                         other output of this channel waits until the body is complete
    ack(channel, delivery_tag, multiple=False)        client: of a delivery; server: a confirm
    nack(channel, delivery_tag, multiple=False, requeue=True)
    reject(channel, delivery_tag, requeue=True)                                                             client
    open_channel(channel=None) -> int                 client; the lowest free number if None
    close_channel(channel, reply_code=200, text="")   orderly; ``ChannelReleased`` follows
    channel_error(channel, exc)                       channel.close with the code and the ids of exc; connection_error
                                                      if exc is a ConnectionException
    connection_error(exc)                             connection.close; then only ``ConnectionClosed`` follows
    close(reply_code=200, text="")                    orderly; ``ConnectionClosed`` follows
    block(reason) -> bool, unblock() -> bool          server; False, with nothing sent, if the connection is not open
                                                      or the client does not support connection.blocked
    cancel_consumer(channel, consumer_tag) -> bool    server; False, with nothing sent, if the client does not support
                                                      consumer_cancel_notify

``channel_error``, ``close_channel``, ``connection_error`` and ``close`` do nothing if the channel or connection is
closing or closed already (both sides may close at the same time). All other commands on a channel that the peer has
closed raise ``LocalMisuse``. ``header`` is a ``ContentHeader``: a received one is sent again with the same bytes
(``ContentHeader.build(body_size, Properties(...))`` makes one). ``body`` is bytes or memoryview, and its length must be
``body_size``.

**Automatic**: negotiation of the limits, open-ok of channels, close-ok, flow-ok, heartbeats, fragmentation, ignoring
frames after a close, assembly of contents, error 311 for bodies over ``limits.body_max``, matching replies to requests.
An error of the peer gives ``ChannelClosed`` (soft) or ``ConnectionFailed`` (hard) and the close method in the output.
If the specification forbids sending (unknown frame type, bad frame end, silent peer), ``ConnectionClosed`` is reported
immediately.

**Modules for owners**: ``connection``, ``events``, ``methods``, ``errors``, ``content``, ``sasl``, ``limits``
(``ConnectionLimits``), ``wire`` (``Table``, ``Timestamp``, ``encode_table``, ``decode_table``). **Modules below them**:
``spec`` (the specification as a table), ``codec`` (methods to bytes and back), ``frames`` (bytes to frames),
``fast_path`` (the most frequent methods in one step), ``record`` (base class of methods and events).

**Content header** (``semq.amqp.content``): ``header.raw`` (payload of the header frame), ``header.body_size``,
``header.properties`` (``Properties``), and single properties decoded on each access: ``content_type content_encoding
headers delivery_mode priority correlation_id reply_to expiration message_id timestamp type user_id app_id cluster_id``
(None if absent; ``timestamp`` in POSIX seconds; ``headers`` a dict, decoded once). ``header.amended(headers={…},
expiration=None, …)`` returns a copy in which only the named properties and, inside ``headers``, only the named entries
differ (None removes); all other bytes are unchanged. Reading a property of a malformed header raises ``FrameError`` or
``SyntaxFault``: pass it to ``connection_error``.
"""

from semq.amqp.connection.client import ClientConnection
from semq.amqp.connection.server import ServerConnection
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.amqp.limits import ConnectionLimits

__all__ = ["AmqpError", "ClientConnection", "ConnectionLimits", "ContentHeader", "Properties", "ServerConnection"]
