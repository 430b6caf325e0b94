"""Sockets: opening and accepting of AMQP 0-9-1 connections. Messages are not interpreted here.

**Turn** (``turn.Turn``): one object per event loop. Links with output and hooks with work register during a turn; at
its end, the hooks run and the links write, once. ``Turn()``, ``turn.mark(link)``, ``turn.before_flush(hook)``,
``turn.in_next(step)``.

**Dialling** (``dialer``)::

    link = await dial(DialConfig(host, port, virtual_host, user, password, tls=None, server_hostname=None,
                                 limits=ConnectionLimits(), connect_s=10.0, client_properties={}, product=None,
                                 check=…), clock, turn)
                                               # raises DialFailed, AmqpError, ForeignBroker, the error of ``check``
    link.is_open, link.is_blocked, link.error, link.machine.peer_properties
    link.keeps_large_bodies = True             # later channels keep bodies that arrive in chunks, in files
    link.on_closed = lambda error: ...         # called once; None after an orderly close, else AmqpError or LinkLost
    link.on_blocked = lambda reason: ...       # called with None when the connection is unblocked
    channel = await link.open_channel()
    await link.close(timeout_s=5.0); await link.wait_closed()

``password=None`` logs in by certificate (EXTERNAL). There is no automatic reconnect.

**A dialled channel** (``client_channel.ClientChannel``)::

    await channel.confirm_select()
    if channel.may_publish: number = channel.publish(exchange, routing_key, header, body, mandatory=False, token=any)
    await channel.wait_ready()                 # wait for may_publish; channel.on_ready is the callback
    await channel.publish_blocks(exchange, routing_key, header, blocks)        # without confirms; a body in blocks
    channel.on_settled = lambda pairs: ...     # list[(token, confirmed)] of one read; channel.unconfirmed counts
    channel.on_returned = lambda returned: ... # called before the confirm of the returned message
    await channel.qos(prefetch_count, per_channel=False)
    tag = await channel.consume(queue, on_delivered, no_ack=False, exclusive=False, consumer_tag="", arguments=None)
                                               # on_delivered(list[Delivered]): all deliveries of one read
    channel.ack(tag, multiple=False); channel.nack(tag, multiple, requeue); channel.reject(tag, requeue)
    await channel.cancel(consumer_tag); channel.on_cancelled = lambda consumer_tag: ...
    got = await channel.get(queue, no_ack=False)                  # Got | None
    await channel.declare_queue(name, durable=True, ...)          # the arguments of queue.declare by name
    await channel.declare_exchange(name, kind, ...); await channel.bind_queue(queue, exchange, routing_key)
    reply = await channel.call(method, reply_type)                # any other synchronous method
    channel.on_closed = lambda error: ...; channel.close()

Headers are ``semq.amqp.content.ContentHeader`` (``ContentHeader.build(len(body), Properties(...))``); a received header
may be published again unchanged.

**Listening** (``listener``): ``Listener(ListenerConfig(host, port, connections_max, connections_per_address_max,
pause_s, backlog, tls, handshake_s), make, clock, turn)`` with ``await start()``, ``port``, ``await stop(drain_s)``;
``make()`` returns a state machine and its owner for each connection. Used by ``server`` and ``shared_port`` of
``semq.broker``.

``client.ClientLink`` is the link that ``dial`` returns, ``link.SocketLink`` the socket of both sides, ``handshakes``
does the TLS handshakes of a listener, ``peer.PeerInfo`` describes the peer, ``spool.SpooledBody`` is a large body in a
temporary file, and ``errors`` has the errors.
"""
