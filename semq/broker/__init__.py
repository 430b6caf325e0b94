"""AMQP 0-9-1's server model with RabbitMQ's semantics, and hooks for exchanges and queues served by the node itself.

**A server** (``server``)::

    server = AmqpServer(ServerConfig(listener=ListenerConfig(host, port), connection=ConnectionLimits(),
                                     limits=BrokerLimits(), vhosts=("/", "umx"), properties={"product": "SEMQ", ...}),
                        authenticator, clock, store=None, turn=None)       # made inside a running loop
    server.vhosts["/"].register(service)          # before start
    await server.start()                          # restores, listens; server.port
    server.counts()                               # dict of figures for metrics
    server.block_publishers("low on disk")        # connection.blocked to publishers; None ends this shortage
    await server.stop(drain_s=5.0)                # connection.close 320 to all, waits for them and for the store

``store``: a ``MessageStore`` of ``semq.store.broker.operations``; with None, durable objects are kept in memory only
and end with the process. ``turn``: the object that ends each turn of the event loop (``semq.transport.turn``); links
that the node opens itself may share it; None makes a new one.

**Users** (``users``): ``UserTable([User(name, digest_of(password), {vhost: Permissions(configure, write, read)},
loopback_only=False)])`` or any ``Authenticator`` (``mechanisms``, ``async authenticate(mechanism, sasl.Credentials,
PeerInfo)``, ``permissions(user, vhost)``). guest should be ``loopback_only``.

**Services** (``services``): derive classes from ``ServiceExchange`` and ``ServiceQueue``, and register their objects.

    class Door(ServiceExchange):                  # super().__init__(name, "x-semq", body_max=128 << 20)
        def publish(self, message): ...            # session routing_key header body mandatory settle
            # message.settle(CONFIRMED | NACKED | ReturnedToSender(code, text) | Refused(AmqpError)) exactly once, now
            # or later, in the event loop; raising an AmqpError here is the same as settling with Refused

    class Inbox(ServiceQueue):                    # super().__init__(name)
        def may_attach(self, session, exclusive) -> AmqpError | None
        def attach(self, consumer); def detach(self, consumer)
        def resume(self, consumer)                  # the consumer may have room again: check consumer.credit
        def settled(self, consumer, tokens, disposition)   # Disposition.ACK | REQUEUE | REJECT | LOST; all of one read
        def get(self, getter)                # basic.get: getter.answer(ServiceDelivery | None, remaining), now or later
        def counts(self, answer)                  # queue.declare: answer(messages, consumers), now or later

    consumer.credit; consumer.session; consumer.tag; consumer.arguments; consumer.no_ack
    consumer.deliver(exchange, routing_key, header, body, redelivered, token)    # only while credit > 0
    consumer.cancel()

``session`` is a ``SessionInfo``: ``user peer vhost client_properties connected_at state close(AmqpError)``.
``server.vhosts[name].hooks.append(SessionHooks(on_open, on_close))`` registers two callbacks: the first is called when
a connection has opened the virtual host, the second when that connection has ended.

**Publishing by the node itself** (``vhost.VirtualHost``)::

    vhost.publish_internal(exchange, routing_key, header, body) -> PublishResult(queues, must_be_stored, is_refused)
    prepared = vhost.prepare_publish(exchange, routing_key, header, body)
    prepared.ops          # list[StoreOp] to write in the caller's own transaction
    prepared.commit()     # after that commit: consumers see the message; without this call it does not exist

**Storage** (``semq.store.broker.operations``): ``MessageStore.save(ops, done)``, ``read_body(body_id, index, done)``,
``read_messages(queue_id, positions, done)`` and ``async load() -> StoredState``; the operations are dataclasses there.
``no_store`` has ``NoStore``, for queues in memory only. Bodies of at least ``BrokerLimits.spill_from`` bytes are passed
to the store in chunks and are never complete in memory; of a queue longer than ``BrokerLimits.window``, only the first
and the newest messages are in memory (``pages``).

| modules                               | subject                                                     |
|---------------------------------------|-------------------------------------------------------------|
| server, limits, users                 | one endpoint, its limits, its users                         |
| shared_port                           | several servers on one listening port                       |
| session, login, allowance, ports      | one connection, and the protocols between it and the server |
| channel                               | one channel: requests and replies of clients                |
| vhost, definitions, routing           | exchanges, queues, bindings, and the routing of messages    |
| queues, arguments, timers             | one queue                                                   |
| environment, memory_gauge, long_tasks | objects that all queues share                               |
| generated_names, refusals             | names and error texts in RabbitMQ's forms                   |
| durable                               | storage of definitions and messages, and their restoration  |
| services                              | exchanges and queues served by the node's code              |
"""
