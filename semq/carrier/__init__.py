"""The carrier of a hub with several instances over AMQP 0-9-1: RabbitMQ, or a SEMQ node as a broker.

``batch`` converts messages between instances to bytes and back, authenticated with the hub's key. ``outgoing`` is the
bounded queue of messages to publish. ``amqp`` has connection, queues and consumers. ``errors`` has its errors.
"""
