"""The bounded queue of messages to publish, in batches.

Beyond the bound, messages are dropped and counted; the rows and timers of the engines repair their loss.
"""

from collections import deque
from collections.abc import Iterator

BATCH_BYTES = 1 << 20  # a batch is closed when it has reached this size
WAITING_BYTES_MAX = 64 << 20  # largest number of bytes that wait, for all destinations together


class WaitingMessages:
    """Packed messages that wait to be published, by destination."""

    def __init__(self, bytes_max: int = WAITING_BYTES_MAX) -> None:
        self.dropped = 0
        self.waiting_bytes = 0
        self._bytes_max = bytes_max
        self._waiting: dict[str, deque[bytes]] = {}

    def put(self, destination: str, packed: bytes) -> None:
        """Append a message. Beyond the bound, drop the oldest messages of the queues with the most messages."""
        self._waiting.setdefault(destination, deque()).append(packed)
        self.waiting_bytes += len(packed)
        while self.waiting_bytes > self._bytes_max and self.waiting_bytes > len(packed):
            self._drop_oldest(destination)

    def batches(self) -> Iterator[tuple[str, list[bytes]]]:
        """Remove and yield batches: destination and messages; destinations take turns."""
        while self._waiting:
            destination, queue = next(iter(self._waiting.items()))
            del self._waiting[destination]
            batch: list[bytes] = []
            size = 0
            while queue and size < BATCH_BYTES:
                batch.append(queue.popleft())
                size += len(batch[-1])
            if queue:
                self._waiting[destination] = queue
            self.waiting_bytes -= size
            yield destination, batch

    def clear(self) -> None:
        """Drop all messages and count them."""
        self.dropped += sum(map(len, self._waiting.values()))
        self._waiting.clear()
        self.waiting_bytes = 0

    def _drop_oldest(self, destination_of_newest: str) -> None:
        """Drop the oldest message of the queue with the most messages, but never the newest message of all."""
        queues = [
            (name, queue) for name, queue in self._waiting.items() if name != destination_of_newest or len(queue) > 1
        ]
        destination, queue = max(queues, key=lambda item: len(item[1]))
        self.waiting_bytes -= len(queue.popleft())
        self.dropped += 1
        if not queue:
            del self._waiting[destination]
