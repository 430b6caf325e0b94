"""The carrier: messages between the instances of a hub, over AMQP 0-9-1. Its broker is RabbitMQ or a SEMQ node.

``batch`` converts messages between instances to bytes and back, authenticated with the hub's key. ``outgoing`` is the
bounded queue of messages to publish. ``amqp`` has connection, queues and consumers. ``errors`` has its errors.
"""
