"""How much one broker bears: the bounds beside those of a connection (``semq.amqp.limits``) and a port
(``ListenerConfig``).

A value in one place for everything that a client could otherwise make grow. Set by the node's configuration, kept by
``session``, ``channel`` and ``server``.
"""

from dataclasses import dataclass, field

from semq.broker.definitions import VhostLimits

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """Bounds; sizes in octets of message bodies."""

    output_bytes: int = 256 * 1024  # produced for one connection in one turn before deliveries to it pause
    in_hand_bytes: int = 16 * MIB  # published by one connection and not yet settled, before reading from it pauses
    in_hand_count: int = 20_000
    unacked_bytes: int = 256 * MIB  # delivered to one connection and not yet acknowledged, before deliveries pause
    unacked_count: int = 200_000
    transaction_bytes: int = 128 * MIB  # published in one open transaction
    transaction_count: int = 100_000
    transactions_bytes: int = 256 * MIB  # published in all open transactions of the broker
    held_events: int = 1_000  # of one channel that waits for the store, before reading from the connection pauses
    consumers_per_channel: int = 10_000
    consumer_arguments_bytes: int = 8 * 1024
    spill_from: int = 4 * MIB  # larger bodies go to the store as they come, and never are in memory whole
    window: int = 16_384  # messages of one queue that stay in memory; those behind them wait in the store
    window_bytes: int = 16 * MIB
    memory_high: int = 1024 * MIB  # in all queues, in transactions, on the way to the store: publishers are blocked
    memory_low: int = 896 * MIB  # and released
    vhost: VhostLimits = field(default_factory=VhostLimits)
