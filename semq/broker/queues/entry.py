"""One message in one queue. Made by ``queue`` and ``pages``; moved by ``ready``; referred to by deliveries."""

from semq.broker.queues.message import Message


class QueueEntry:
    """A message and its position. ``expires_at`` is on the monotonic clock; ``is_stored``: whether the store has a row
    for it.
    """

    __slots__ = ("deliveries", "expires_at", "is_stored", "message", "position")

    def __init__(self, message: Message, position: int, expires_at: float | None) -> None:
        self.message = message
        self.position = position
        self.expires_at = expires_at
        self.deliveries = 0
        self.is_stored = False
