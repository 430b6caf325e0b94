"""One message queue: waiting messages, consumers, unacknowledged messages, and limits. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any, cast

from semq.amqp.content import ContentHeader
from semq.broker.arguments import Overflow, QueueSettings
from semq.broker.departures import Departure
from semq.broker.environment import DeathReason, Environment
from semq.broker.long_tasks import SLICE
from semq.broker.queues.bodies import Body, StoredBody, release, retain
from semq.broker.queues.consumers import ConsumerRing, QueueConsumer
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.queues.pages import QueuePage, pages_of
from semq.broker.queues.ready import PriorityLane, ReadyMessages
from semq.broker.routing.exchanges import Binding
from semq.broker.timers import Timer
from semq.store.broker.operations import AddMessage, DropBody, SetDeliveryCount, StoredBacklog


class Disposition(Enum):
    """The settlement of a delivery."""

    __hash__ = object.__hash__  # faster than Enum's, which is written in Python

    ACK = "ack"
    REQUEUE = "requeue"
    REJECT = "reject"  # dead-lettered, or dropped without a dead-letter exchange
    LOST = "lost"  # requeued: the channel, the connection or a service's consumer has ended


class Queue:
    """A queue. ``queue_id``: its id in the store; ``owner``: the connection of an exclusive queue, else None."""

    is_service = False
    __slots__ = (
        "arguments",
        "auto_delete",
        "consumers",
        "durable",
        "dying",
        "dying_bytes",
        "encoded_arguments",
        "env",
        "exclusive_consumer",
        "expires_timer",
        "has_expiring",
        "incoming",
        "is_deleted",
        "is_limited",
        "last_used",
        "name",
        "next_position",
        "owner",
        "queue_id",
        "read_waiters",
        "ready",
        "redelivered_to",
        "settings",
        "ttl_timer",
        "unacked",
    )

    def __init__(
        self,
        name: str,
        queue_id: int,
        env: Environment,
        settings: QueueSettings,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        owner: Any = None,
        arguments: dict[str, object] | None = None,
        encoded_arguments: bytes = b"",
    ) -> None:
        self.name = name
        self.queue_id = queue_id
        self.env = env
        self.settings = settings
        self.durable = durable
        self.auto_delete = auto_delete
        self.owner = owner
        self.arguments = arguments or {}
        self.encoded_arguments = encoded_arguments
        self.incoming: dict[Binding, None] = {}
        self.ready = ReadyMessages(settings.max_priority)
        self.redelivered_to = 0  # up to this position, messages may have been delivered before a restart
        self.read_waiters: list[Callable[[], None]] = []  # called when the head has been read into memory
        if env.pager is not None:
            self.ready.window, self.ready.window_bytes = env.pager.window, env.pager.window_bytes
            self.ready.on_full, self.ready.on_low = self._write_out, self._read_in
        self.consumers = ConsumerRing(settings.single_active_consumer)
        self.exclusive_consumer: QueueConsumer | None = None
        self.next_position = 1
        self.unacked = 0
        self.dying = self.dying_bytes = 0  # dead messages that wait for their dead-letter exchange, and their bodies
        self.is_deleted = False
        self.is_limited = settings.max_length is not None or settings.max_length_bytes is not None
        self.has_expiring = False  # whether a message with a time to live has waited here
        self.ttl_timer: Timer | None = None
        self.expires_timer: Timer | None = None
        self.last_used = 0.0  # monotonic
        self.note_use()

    # Input.

    def refuses(self, message: Message, way: Departure = Departure.REFUSED) -> bool:
        """Return whether the full queue refuses the message (x-overflow); with reject-publish-dlx, dead-letter it.

        ``way``: how a refused message leaves.
        """
        settings = self.settings
        if not self.would_refuse(1, message.size):
            return False
        goes_on = settings.overflow is Overflow.REJECT_PUBLISH_DLX and settings.dead_letter_exchange is not None
        if goes_on:
            self.env.on_dead(self, message, DeathReason.MAXLEN, None)
        if not goes_on or way is Departure.REFUSED:
            self.env.departures.note_of_queue(way, self.name)
        return True

    def would_refuse(self, count: int, size: int) -> bool:
        """Return whether the queue refuses the last of ``count`` messages with ``size`` bytes together."""
        return self.settings.overflow is not Overflow.DROP_HEAD and self._is_over(count, size)

    def publish(self, message: Message) -> bool:
        """Accept a message; return whether it must be stored before it is confirmed."""
        entry = self.entry_for(message)
        consumer = None if len(self.ready) else self.consumers.next()
        if consumer is None:
            self._store(entry)
            self.admit(entry)
            return entry.is_stored
        # A consumer with no-ack never returns the message.
        if not consumer.no_ack:
            self._store(entry)
        self.env.memory.add(message.weight)
        self._hand_out(consumer, entry)
        return entry.is_stored

    def entry_for(self, message: Message) -> QueueEntry:
        """Return an entry with the next position; ``admit`` adds it to the queue."""
        position = self.next_position
        self.next_position = position + 1
        retain(message.body)
        expires = message.expiration is not None or self.settings.message_ttl is not None
        return QueueEntry(message, position, self._expiry_of(message) if expires else None)

    def admit(self, entry: QueueEntry) -> None:
        self.ready.push(entry)
        self.env.memory.add(entry.message.weight)
        self._watch(entry)
        if self.is_limited:
            self._drop_surplus()

    # Restoring after a restart, before any consumer exists; called in this order.

    def restore_marks(self, handed_out: int) -> None:
        """Mark messages up to position ``handed_out`` as redelivered."""
        self.redelivered_to = handed_out
        self.next_position = handed_out + 1  # positions are never used twice

    def restore(self, entry: QueueEntry, backlog_start: int | None) -> None:
        """Restore one message; called in order of position.

        ``backlog_start``: first position of the backlog; None if there is none. A message after this position is put
        back like a returned message.
        """
        self.next_position = max(self.next_position, entry.position + 1)
        retain(entry.message.body)
        (self.ready.push if backlog_start is None or entry.position < backlog_start else self.ready.put_back)(entry)
        self.env.memory.add(entry.message.weight)
        self._watch(entry)

    def restore_backlog(self, backlog: StoredBacklog) -> None:
        """Restore messages that stay in the store until shortly before their delivery."""
        for priority, page in pages_of(backlog, self.settings.max_priority):
            self.ready.put_page(priority, page)
        self.next_position = max(self.next_position, backlog.positions[-1] + 1)

    def end_restore(self) -> None:
        self._arm_for_head()  # also reads the first page if no message is in memory
        if self.is_limited:
            self._drop_surplus()

    def entry_of_row(self, row: AddMessage, body: Body | None = None) -> QueueEntry:
        header = ContentHeader.parse(row.header)
        message = Message(row.exchange, row.routing_key, header, row.body if body is None else body)
        expires_at = row.expires_at
        if expires_at is not None:
            clock = self.env.clock
            expires_at += clock.monotonic() - clock.wall().timestamp()
        entry = QueueEntry(message, row.position, expires_at)
        entry.deliveries = row.delivery_count or int(row.position <= self.redelivered_to)
        entry.is_stored = True
        return entry

    # Messages that are not in memory.

    def _write_out(self, page: QueuePage) -> None:
        assert self.env.pager is not None
        self.env.pager.write_out(self, page)

    def _read_in(self, lane: PriorityLane, page: QueuePage) -> None:
        assert self.env.pager is not None
        self.env.pager.read_in(self, page, lambda entries: self._page_read(lane, page, entries))

    def _page_read(self, lane: PriorityLane, page: QueuePage, entries: list[QueueEntry]) -> None:
        self.env.departures.note_of_queue(Departure.MISSING, self.name, page.count - len(entries))
        self.ready.insert_page(lane, page, entries)
        self.has_expiring = self.has_expiring or any(entry.expires_at is not None for entry in entries)
        self._continue()

    def _continue(self) -> None:
        """Apply the limits and deliver, after a change of the head."""
        if self.has_expiring:
            self._remove_expired(self.env.clock.monotonic())
        if self.is_limited:
            self._drop_surplus()
        waiting, self.read_waiters = self.read_waiters, []
        for retry in waiting:
            retry()
        self.pump()
        self.env.on_changed()

    # Rows of the store.

    def stores(self, message: Message) -> bool:
        """Return whether this message must be stored."""
        return self.durable and message.is_persistent and self.owner is None

    def row_for(self, entry: QueueEntry) -> AddMessage:
        message, body, expires_at = entry.message, entry.message.body, entry.expires_at
        if expires_at is not None:
            clock = self.env.clock
            expires_at += clock.wall().timestamp() - clock.monotonic()
        return AddMessage(
            self.queue_id,
            entry.position,
            message.exchange,
            message.routing_key,
            message.priority,
            expires_at,
            entry.deliveries,
            message.header_bytes,
            *((b"", body.body_id) if isinstance(body, StoredBody) else (cast(bytes, body), 0)),
        )

    def _store(self, entry: QueueEntry) -> None:
        if self.stores(entry.message):
            entry.is_stored = True
            self.env.journal.add(self.row_for(entry))

    # Output.

    def pump(self) -> None:
        ready, consumers = self.ready, self.consumers
        while len(ready):
            consumer = consumers.next()
            if consumer is None:
                return
            entry = self.pop()
            if entry is None:
                return
            self._hand_out(consumer, entry)

    def get(self) -> QueueEntry | None:
        """Return a message for basic.get, now unacknowledged; None if no message waits.

        Return None also if the next message is being read: ``read_waiters`` are called after the read.
        """
        self.note_use()
        entry = self.pop()
        if entry is not None:
            self._mark_unacked(entry)
        return entry

    def pop(self) -> QueueEntry | None:
        """Return the next message that has not expired; None if there is none, or if it is being read."""
        ready = self.ready
        if not self.has_expiring:
            return ready.pop() if len(ready) else None
        now = self.env.clock.monotonic()
        self._remove_expired(now)
        head = ready.head()
        if head is None or (head.expires_at is not None and head.expires_at <= now):
            return None  # the head is being read or dropped; deliveries continue afterwards
        entry = ready.pop()
        self._remove_expired(now)  # those behind the entry
        return entry

    def _hand_out(self, consumer: QueueConsumer, entry: QueueEntry) -> None:
        if not consumer.no_ack:
            self._mark_unacked(entry)
        consumer.deliver_entry(entry)
        if consumer.no_ack:
            self._forget(entry)

    def _mark_unacked(self, entry: QueueEntry) -> None:
        self.unacked += 1
        if entry.is_stored:
            self.env.journal.mark_handed_out(self.queue_id, entry.position)

    # Settlement.

    def settle(self, entries: Iterable[QueueEntry], disposition: Disposition) -> None:
        """Delete deliveries, return them to their positions, or dead-letter them."""
        if self.is_deleted:
            for entry in entries:
                if disposition is not Disposition.ACK:
                    self.env.departures.note_of_queue(Departure.QUEUE_DELETED, self.name)
                self._forget(entry)
            return
        has_returned = False
        for entry in entries:
            self.unacked -= 1
            if disposition is Disposition.ACK:
                self._forget(entry)
            elif disposition is Disposition.REJECT:
                self._dead_letter(entry, DeathReason.REJECTED)
            else:
                self._return(entry)
                has_returned = True
        if has_returned:
            self.pump()
            if self.is_limited:
                self._drop_surplus()

    def _return(self, entry: QueueEntry) -> None:
        entry.deliveries += 1
        limit = self.settings.delivery_limit
        if limit is not None and entry.deliveries > limit:
            self._dead_letter(entry, DeathReason.DELIVERY_LIMIT)
            return
        if entry.is_stored and entry.deliveries > 1:  # after a restart, a recorded hand-out counts as one
            self.env.journal.add(SetDeliveryCount(self.queue_id, entry.position, entry.deliveries))
        self.ready.put_back(entry)
        self._watch(entry)

    def _forget(self, entry: QueueEntry, became: Sequence[AddMessage] = ()) -> None:
        if entry.is_stored and became:
            self.env.journal.move(self.queue_id, entry.position, became)
        elif entry.is_stored:
            self.env.journal.drop(self.queue_id, entry.position)
        self._release(entry)

    def _release(self, entry: QueueEntry) -> None:
        self.env.memory.add(-entry.message.weight)
        release(entry.message.body)

    def _dead_letter(self, entry: QueueEntry, reason: DeathReason) -> None:
        settings = self.settings
        if settings.dead_letter_exchange is None:
            self.env.departures.note_of_queue(Departure(reason.value), self.name)
            self._forget(entry)
            return
        if settings.at_least_once:  # it may stay
            self.dying, self.dying_bytes = self.dying + 1, self.dying_bytes + entry.message.size
        self.env.on_dead(self, entry.message, reason, entry)

    def forget_dead(self, entry: QueueEntry, became: Sequence[AddMessage]) -> None:
        """Forget a dead message that its dead-letter exchange has taken as ``became``, or has lost."""
        if self.settings.at_least_once:
            self.dying, self.dying_bytes = self.dying - 1, self.dying_bytes - entry.message.size
        self._forget(entry, became)

    # Limits and deadlines.

    def _is_over(self, more: int = 0, more_bytes: int = 0) -> bool:
        settings, ready = self.settings, self.ready
        if settings.max_length is not None and len(ready) + self.dying + more > settings.max_length:
            return True
        more_bytes += self.dying_bytes
        return settings.max_length_bytes is not None and ready.bytes + more_bytes > settings.max_length_bytes

    def _drop_surplus(self) -> None:
        while len(self.ready) and self.settings.overflow is Overflow.DROP_HEAD and self._is_over():
            entry = self.ready.pop_least()
            if entry is None:
                return  # the head is being read; the limit is applied again afterwards
            self._dead_letter(entry, DeathReason.MAXLEN)
            if self.has_expiring:
                self._arm_for_head()  # the new head may have expired

    def _expiry_of(self, message: Message) -> float | None:
        ttl = self.settings.message_ttl
        if message.expiration is not None and (ttl is None or message.expiration < ttl):
            ttl = message.expiration
        return None if ttl is None else self.env.clock.monotonic() + ttl / 1000

    def _watch(self, entry: QueueEntry) -> None:
        if entry.expires_at is not None:
            self.has_expiring = True
            self._arm(entry.expires_at)

    def _arm_for_head(self) -> None:
        next_expiry = self.ready.next_expiry()
        if next_expiry is not None:
            self._arm(next_expiry)

    def _arm(self, deadline: float) -> None:
        timer = self.ttl_timer
        if timer is not None and timer.deadline <= deadline:
            return
        if timer is not None:
            timer.cancel()
        self.ttl_timer = self.env.timers.at(deadline, self._expire)

    def _expire(self) -> None:
        self.ttl_timer = None
        self._continue()

    def _remove_expired(self, now: float) -> None:
        """Remove at most SLICE expired messages; set the timer again."""
        for entry in self.ready.pop_expired(now, SLICE):
            self._dead_letter(entry, DeathReason.EXPIRED)
        self._arm_for_head()

    def note_use(self) -> None:
        """Restart the x-expires period, after a use of the queue."""
        if self.settings.expires is None:
            return
        self.last_used = self.env.clock.monotonic()
        if self.expires_timer is None:
            self.expires_timer = self.env.timers.at(self.last_used + self.settings.expires / 1000, self._check_unused)

    def _check_unused(self) -> None:
        self.expires_timer = None
        if self.is_deleted or self.settings.expires is None:
            return
        now = self.env.clock.monotonic()
        deadline = (now if len(self.consumers) else self.last_used) + self.settings.expires / 1000
        if deadline <= now:
            self.env.on_unused(self)
        else:
            self.expires_timer = self.env.timers.at(deadline, self._check_unused)

    # Consumers and the end.

    def subscribe(self, consumer: QueueConsumer, exclusive: bool) -> None:
        """Add a consumer. The caller sends consume-ok before, and calls ``pump`` afterwards."""
        self.consumers.add(consumer)
        if exclusive:
            self.exclusive_consumer = consumer

    def unsubscribe(self, consumer: QueueConsumer) -> bool:
        """Remove a consumer; return whether the caller must delete the queue (auto-delete)."""
        self.consumers.remove(consumer)
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        self.note_use()
        self.pump()  # with a single active consumer, the next one becomes active
        return self.auto_delete and not len(self.consumers)

    def resume(self, consumer: QueueConsumer) -> None:
        self.consumers.resume(consumer)
        if len(self.ready):
            self.pump()

    def purge(self, then: Callable[[], None] = lambda: None) -> int:
        """Delete the waiting messages, not the unacknowledged ones, and call ``then``. Return how many there were."""
        count = len(self.ready)
        self.env.departures.note_of_queue(Departure.PURGED, self.name, count)
        self.env.long_tasks.do(self._delete_in_slices(*self.ready.clear(), then))
        return count

    def _delete_in_slices(
        self, entries: list[QueueEntry], pages: list[QueuePage], then: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        for start in range(0, len(entries), SLICE):
            for entry in entries[start : start + SLICE]:
                self._forget(entry)
            yield
        for page in pages:
            for position in page.rows:
                self.env.journal.drop(self.queue_id, position)
            if page.body_id:
                self.env.journal.add(DropBody(page.body_id))
            yield
        then()

    def delete(self) -> int:
        """End the queue and delete its waiting messages; return their number."""
        count = len(self.ready)
        self.env.departures.note_of_queue(Departure.QUEUE_DELETED, self.name, count)
        self.env.long_tasks.do(self._delete_in_slices(*self.ready.clear()))
        self.is_deleted = True
        waiting, self.read_waiters = self.read_waiters, []
        for retry in waiting:
            retry()
        for timer in (self.ttl_timer, self.expires_timer):
            if timer is not None:
                timer.cancel()
        for consumer in list(self.consumers.members):
            self.consumers.remove(consumer)
            consumer.note_cancelled()
        return count
