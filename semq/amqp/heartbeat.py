"""When to send a heartbeat, and when the peer is to be held for dead. Pure arithmetic on the owner's clock.

Held by ``connection``. A heartbeat goes out after half an interval in which nothing else did, so that one late
timer does no harm; a peer that was not heard for two intervals is dead. Source: seed AMQP 0-9-1, 4.2.7.
"""


class Heartbeat:
    """The two clocks of one connection; ``interval`` in seconds, 0 until it is agreed and if there is to be none."""

    __slots__ = ("heard_at", "interval", "sent_at")

    def __init__(self) -> None:
        self.interval = 0
        self.sent_at = 0.0
        self.heard_at = 0.0

    def begin(self, interval: int, now: float) -> None:
        """The interval is agreed."""
        self.interval = interval
        self.sent_at = self.heard_at = now

    @property
    def send_at(self) -> float | None:
        """When the next one is due if nothing else goes out before; None: never."""
        return self.sent_at + self.interval / 2 if self.interval else None

    @property
    def dead_at(self) -> float | None:
        """When the peer is to be held for dead if it is not heard before; None: never."""
        return self.heard_at + self.interval * 2 if self.interval else None
