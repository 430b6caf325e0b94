"""Limits of one connection's open work, at which reading from the connection or delivering to it pauses.

*In hand* are published messages, and chunks of large ones, that the store has not saved or a service has not settled.
*Unacknowledged* are deliveries that the client has not settled. *Held* are events that wait until their channel may
continue.
"""

from typing import Protocol

from semq.broker.limits import BrokerLimits


class PausableReading(Protocol):
    """The part of a link that ``Allowance`` uses."""

    def pause_reading(self, reason: str) -> None: ...

    def resume_reading(self, reason: str) -> None: ...


class Allowance:
    """The counters of one connection, compared with its limits."""

    __slots__ = (
        "_held",
        "_in_hand_bytes",
        "_in_hand_count",
        "_limits",
        "_link",
        "unacked_bytes",
        "unacked_count",
        "was_full",
    )

    def __init__(self, limits: BrokerLimits, link: PausableReading) -> None:
        self._limits = limits
        self._link = link
        self._held = 0
        self._in_hand_bytes = 0
        self._in_hand_count = 0
        self.unacked_bytes = 0
        self.unacked_count = 0
        self.was_full = False  # whether ``has_room`` has returned False since the consumers were resumed

    def begin_publish(self, size: int) -> None:
        """Count one publish, or one chunk of a large body, as in hand; ``size`` is in bytes."""
        self._in_hand_count += 1
        self._in_hand_bytes += size
        limits = self._limits
        if self._in_hand_bytes > limits.in_hand_bytes or self._in_hand_count > limits.in_hand_count:
            self._link.pause_reading("in hand")

    def end_publish(self, size: int) -> None:
        self._in_hand_count -= 1
        self._in_hand_bytes -= size
        limits = self._limits
        if self._in_hand_bytes <= limits.in_hand_bytes // 2 and self._in_hand_count <= limits.in_hand_count // 2:
            self._link.resume_reading("in hand")

    def set_paused(self, reason: str, is_paused: bool) -> None:
        """Pause reading from the connection for this reason, or remove the reason."""
        (self._link.pause_reading if is_paused else self._link.resume_reading)(reason)

    def change_held(self, cost: int) -> None:
        """Add the cost of events that begin to wait; a negative ``cost`` is for events that wait no longer."""
        self._held += cost
        if self._held >= self._limits.held_events:
            self._link.pause_reading("held")
        elif self._held <= self._limits.held_events // 2:
            self._link.resume_reading("held")

    def deliver(self, size: int) -> None:
        self.unacked_count += 1
        self.unacked_bytes += size

    def settle(self, size: int) -> None:
        self.unacked_count -= 1
        self.unacked_bytes -= size

    def has_room(self) -> bool:
        limits = self._limits
        if self.unacked_bytes < limits.unacked_bytes and self.unacked_count < limits.unacked_count:
            return True
        self.was_full = True
        return False
