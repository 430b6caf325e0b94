"""Sockets: opening and accepting of AMQP 0-9-1 connections. Messages are not interpreted here.

``dialer.dial`` opens a connection; there is no automatic reconnect. ``listener.Listener`` accepts connections.

==================  ====================================================================
``dialer``          one attempt to connect and log in
``client``          a dialled connection: ``ClientLink``
``client_channel``  a channel of a dialled connection: ``ClientChannel``
``listener``        a listening port with limits
``places``          the limits of open sockets, and who loses a place when all are taken
``handshakes``      the TLS handshakes of a listener
``link``            the socket of a client or a server: ``SocketLink``
``turn``            the end of a turn of the event loop, at which output is written
``tls_files``       TLS contexts made of files that may be replaced
``http_client``     an HTTP client with such a context
``peer``            address and certificate of the peer
``spool``           a large body in a temporary file
``errors``          the errors
==================  ====================================================================
"""
