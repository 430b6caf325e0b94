"""The consumers of one inbox, and their turns, as in a queue of RabbitMQ.

Consumers of the highest priority (``x-priority``) come first; those of one priority take turns. With a single active
consumer, only one gets documents until it ends; then the oldest of the highest priority becomes active.
"""

from collections import deque
from collections.abc import Iterator

from semq.broker.services import ServiceConsumer


class InboxConsumers:
    """The consumers. ``credit`` and ``in_turn`` are about those that may get documents now."""

    def __init__(self) -> None:
        self.has_single_active = False
        self._members: dict[ServiceConsumer, None] = {}  # the oldest first
        self._lanes: dict[int, deque[ServiceConsumer]] = {}  # by priority, in turn
        self._priorities: list[int] = []  # highest first
        self._active: ServiceConsumer | None = None

    def __len__(self) -> int:
        return len(self._members)

    def may_add(self, exclusive: bool) -> bool:
        """Return whether the queue is free for one more consumer, an exclusive one or not."""
        if exclusive:
            return not (self._members or self.has_single_active)
        return not any(consumer.exclusive for consumer in self._members)

    def add(self, consumer: ServiceConsumer) -> None:
        self._members[consumer] = None
        self._lanes.setdefault(consumer.priority, deque()).append(consumer)
        self._arrange()

    def remove(self, consumer: ServiceConsumer) -> None:
        del self._members[consumer]
        self._lanes[consumer.priority].remove(consumer)
        self._arrange()

    def _arrange(self) -> None:
        self._priorities = sorted((priority for priority, lane in self._lanes.items() if lane), reverse=True)
        self._lanes = {priority: self._lanes[priority] for priority in self._priorities}
        if self._active not in self._members:
            # Of equal priorities, ``max`` returns the first, which is the oldest.
            self._active = max(self._members, key=lambda member: member.priority, default=None)

    @property
    def credit(self) -> int:
        """The number of documents that may be delivered now."""
        if self.has_single_active:
            return self._active.credit if self._active is not None else 0
        return sum(consumer.credit for consumer in self._members)

    def in_turn(self) -> Iterator[ServiceConsumer]:
        """Yield the consumers with credit; one that was yielded has had its turn."""
        if self.has_single_active:
            if self._active is not None and self._active.credit > 0:
                yield self._active
            return
        for priority in self._priorities:
            lane = self._lanes[priority]
            for _ in range(len(lane)):
                consumer = lane[0]
                lane.rotate(-1)
                if consumer.credit > 0:
                    yield consumer
