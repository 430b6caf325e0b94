"""Deadlines for sending a heartbeat and for giving up a silent peer (AMQP 0-9-1, 4.2.7). Pure.

A heartbeat is sent after half an interval without other output, so that it is in time even if a timer is late.
"""


class Heartbeat:
    """The two deadlines of one connection; ``interval`` in seconds, 0 for none or not negotiated yet."""

    __slots__ = ("interval", "received_at", "sent_at")

    def __init__(self) -> None:
        self.interval = 0
        self.sent_at = 0.0
        self.received_at = 0.0

    def begin(self, interval: int, now: float) -> None:
        self.interval = interval
        self.sent_at = self.received_at = now

    @property
    def send_at(self) -> float | None:
        """Time at which the next heartbeat is due if nothing else is sent; None for never."""
        return self.sent_at + self.interval / 2 if self.interval else None

    @property
    def dead_at(self) -> float | None:
        """Time at which the peer is given up if nothing arrives; None for never."""
        return self.received_at + self.interval * 2 if self.interval else None
