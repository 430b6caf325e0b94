"""The carrier of a hub with several instances over AMQP 0-9-1: RabbitMQ, or a SEMQ node as a broker.

``batch``: messages between instances as bytes, and back, authenticated by the hub's key. ``outgoing``: the bounded
queue of messages to publish, in batches. ``amqp``: connection, queues and consumers. The messages themselves are in
``semq.engine.hub.carrier``. Used by ``platform_node``.
"""
