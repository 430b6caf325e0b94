"""AMQP 0-9-1 without IO, for clients and servers: received bytes become events, commands become bytes to send.

The owner has the socket and the clock. ``now``: seconds of any monotonic clock::

    connection = ServerConnection(limits, server_properties=…, mechanisms=("PLAIN", "AMQPLAIN"))
    connection = ClientConnection(limits, mechanism="PLAIN", response=sasl.plain(user, password), virtual_host="/",
                                  client_properties=…)
    connection.start(now)                      # client: queues the protocol header; both: starts the handshake timeout
    events = connection.receive(data, now)     # data: bytes as they arrive; errors of the peer become events
    events = connection.receive_eof(now)       # the peer closed the socket
    events = connection.tick(now)              # at or after next_deadline: heartbeats, silent or slow peers
    when = connection.next_deadline            # float | None, on the same clock
    pieces = connection.take_output()          # list[bytes | memoryview], to be written after each call above
    size = connection.output_size              # bytes waiting for take_output

Do not call ``receive`` while ``output_size`` is too large, so that TCP slows down a peer that does not read.

**Negotiation.** A server answers ``LoginOffered`` with ``accept_login()`` or ``refuse_login(text)``, and
``OpenRequested`` with ``accept_open()`` or ``connection_error(exc)``, at any time before the handshake times out.

**Commands** queue output. If the protocol forbids a command in the present state, it raises ``LocalMisuse`` and queues
nothing. ``channel_error``, ``close_channel``, ``connection_error`` and ``close`` do nothing on a channel or connection
that is closing or closed.

**Errors** of the peer give ``ChannelClosed`` (soft) or ``ConnectionFailed`` (hard); or only ``ConnectionClosed`` if the
specification forbids sending (unknown frame type, bad frame end, silent peer). A client sends its close at once.

**A server answers in turn**: requests that arrived before a close or an error may have no answer yet, so the owner
calls ``accept_channel_close``, ``accept_close``, ``channel_error`` or ``connection_error`` when they have. Until then,
further input of the channel or connection is ignored.

| modules         | subject                                                                  |
|-----------------|--------------------------------------------------------------------------|
| connection      | connections of both roles                                                |
| events, methods | what a connection reports; the methods as values                         |
| content         | content headers and properties                                           |
| errors, limits  | one error for each reply code; limits of a connection                    |
| sasl            | the login                                                                |
| wire            | primitive types and field tables                                         |
| spec, codec     | the specification as a table; methods to bytes and back                  |
| frames          | bytes to frames                                                          |
| fast_path       | the most frequent methods in one step                                    |
"""

from semq.amqp.connection.client import ClientConnection
from semq.amqp.connection.server import ServerConnection
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.amqp.limits import ConnectionLimits

__all__ = ["AmqpError", "ClientConnection", "ConnectionLimits", "ContentHeader", "Properties", "ServerConnection"]
