"""AMQP 0-9-1's server model with RabbitMQ's semantics, and hooks for exchanges and queues served by the node itself.

A server, made inside a running event loop::

    server = AmqpServer(ServerConfig(...), authenticator, clock, store=None, turn=None)
    server.vhosts["/"].register(service)          # an exchange or a queue of the node; before start
    await server.start()                          # restores, then listens on server.port
    await server.stop(drain_s=5.0)

``store`` is a ``MessageStore`` of ``semq.store.broker.operations``; with None, durable objects end with the process.
``turn`` is the ``Turn`` of the event loop (``semq.transport.turn``); None makes one.

| modules                               | subject                                                     |
|---------------------------------------|-------------------------------------------------------------|
| server, limits, users                 | one endpoint, its limits, its users                         |
| shared_port                           | several servers on one listening port                       |
| session, login, allowance, ports      | one connection, and the protocols between it and the server |
| channel                               | one channel: requests and replies of clients                |
| vhost, definitions, routing           | exchanges, queues, bindings, and the routing of messages    |
| equivalence                           | declarations of what exists                                 |
| queues, arguments, timers             | one queue                                                   |
| environment, memory_gauge, long_tasks | objects that all queues share                               |
| generated_names, refusals             | names and error texts in RabbitMQ's forms                   |
| departures                            | messages that leave without a consumer: counts and log      |
| durable                               | storage of definitions and messages, and their restoration  |
| services                              | exchanges and queues served by the node's code              |
"""
