"""The queue of an exchange for delayed messages: it has no consumers, and returns each message when it is due. Pure.

The position of a message is its due time, so that the message that is due first is the head, also in pages and after a
restart. A due message leaves like a dead letter that must arrive, to the exchange from which it came.
"""

from collections.abc import Sequence

from semq.broker.arguments import QueueSettings
from semq.broker.environment import Environment
from semq.broker.queues.deadletter import HEADER_MAX
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import DELAY, DelayedExchange, delay_of
from semq.store.broker.operations import AddMessage, StoredBacklog

PREFIX = "amq.delayed."  # of names; clients cannot declare such queues
_SLOT_BITS = 20  # the lower bits of a position distinguish messages that are due in the same millisecond


class DelayQueue(Queue):
    """The messages that one exchange holds."""

    __slots__ = ("_sequence", "_since", "_taken")

    def __init__(self, exchange: DelayedExchange, queue_id: int, env: Environment) -> None:
        settings = QueueSettings(dead_letter_exchange=exchange.name, at_least_once=True)
        super().__init__(PREFIX + exchange.name, queue_id, env, settings, durable=exchange.durable)
        self._since = (
            env.clock.wall().timestamp() - env.clock.monotonic()
        )  # fixed: changes of the clock reorder nothing
        self._sequence = 0
        self._taken: set[int] = set()  # the positions of all messages here

    def entry_for(self, message: Message) -> QueueEntry:
        due = int((self.env.clock.monotonic() + self._since) * 1000) + 1 + delay_of(message.headers())
        position = self._position(due)
        while position in self._taken:
            position = self._position(due)
        self._taken.add(position)
        self.next_position = position  # for the entry that follows
        entry = super().entry_for(message)
        entry.expires_at = due / 1000 - self._since
        return entry

    def _position(self, due_ms: int) -> int:
        self._sequence += 1
        return due_ms << _SLOT_BITS | self._sequence % (1 << _SLOT_BITS)

    def restore(self, entry: QueueEntry, backlog_start: int | None) -> None:
        self._taken.add(entry.position)
        super().restore(entry, backlog_start)

    def restore_backlog(self, backlog: StoredBacklog) -> None:
        self._taken.update(backlog.positions)
        super().restore_backlog(backlog)

    def note_unused(self, entry: QueueEntry) -> None:
        """Note that an entry will not be admitted."""
        self._taken.discard(entry.position)

    def _forget(self, entry: QueueEntry, became: Sequence[AddMessage] = ()) -> None:
        self._taken.discard(entry.position)
        super()._forget(entry, became)


def when_due(message: Message) -> Message:
    """Return a message with the sign of its delay changed, as the plugin for RabbitMQ does: it is not delayed again."""
    header = message.header.amended(headers={DELAY: -delay_of(message.headers())})
    if len(header.raw) > max(HEADER_MAX, len(message.header.raw)):
        header = message.header.amended(headers={DELAY: None})  # it would fit into no frame
    return Message(message.exchange, message.routing_key, header, message.body)
