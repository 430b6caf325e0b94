"""Limits of one broker, in addition to those of a connection (``semq.amqp.limits``) and a port (``ListenerConfig``)."""

from msgspec import Struct, field

from semq.broker.definitions import VhostLimits

MIB = 1 << 20


class BrokerLimits(Struct, frozen=True):
    """The limits; sizes are in bytes. The size of a message includes its header and the overhead of the objects in
    memory (``bodies.weight``), but not a large body that is in the store, unless a comment states otherwise.
    """

    output_bytes: int = 256 * 1024  # output waiting for one connection; above it, deliveries to the connection pause
    in_hand_bytes: int = 16 * MIB  # published by one connection, not settled; above it, reading pauses
    in_hand_count: int = 20_000
    # bodies delivered to one connection and not acknowledged, at which deliveries to it pause
    unacked_bytes: int = 256 * MIB
    unacked_count: int = 200_000
    transaction_bytes: int = 128 * MIB  # published in one open transaction
    transaction_count: int = 100_000
    transactions_bytes: int = 256 * MIB  # published in all open transactions of the broker
    # waiting events of one connection, at which reading from it pauses; large contents count more
    held_events: int = 1_000
    consumers_per_channel: int = 10_000
    consumer_arguments_bytes: int = 8 * 1024
    spill_from: int = 4 * MIB  # bodies from this size on are processed in chunks, as they arrive
    window: int = 16_384  # messages of one lane (priority) of a queue that stay in memory
    window_bytes: int = 16 * MIB  # bodies of all messages of a queue that stay in memory
    # messages of all queues, of transactions and on the way to the store; above it publishers are blocked
    memory_high: int = 1024 * MIB
    memory_low: int = 896 * MIB  # publishers are unblocked at or below it
    vhost: VhostLimits = field(default_factory=VhostLimits)
