"""A virtual host: definitions, services of the node, and the routing of messages. Pure state."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from semq.amqp.content import ContentHeader
from semq.broker import refusals
from semq.broker.definitions import VhostDefinitions, VhostLimits, is_closed
from semq.broker.departures import Departure
from semq.broker.environment import DeathReason, Environment
from semq.broker.generated_names import REPLY_PREFIX
from semq.broker.queues.bodies import release, retain
from semq.broker.queues.deadletter import dead_letter, would_cycle
from semq.broker.queues.delay import DelayQueue, when_due
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import Exchange, route
from semq.broker.services import ServiceExchange, ServiceQueue, SessionInfo
from semq.broker.timers import Timer
from semq.store.broker.operations import AddMessage, StoreOp

RETRY_S = 5.0  # pause before the next attempt to route retained dead letters


class PublishResult(Struct):
    """The result of a publish."""

    queues: int = 0  #: number of queues that have the message; for a direct reply, of channels
    must_be_stored: bool = False  #: before the message is confirmed
    is_refused: bool = False  #: by a queue


# Shared results, never changed.
_ACCEPTED, _TO_BE_STORED = PublishResult(1), PublishResult(1, True)


class PreparedPublish(Struct):
    """Messages that the caller stores in its own transaction: it writes ``ops``, and calls ``commit`` after the
    transaction. Only then consumers see the message."""

    ops: list[StoreOp]
    _entries: list[tuple[Queue, QueueEntry]]
    _admit: Callable[[list[tuple[Queue, QueueEntry]]], None]

    def commit(self) -> int:
        """Put the messages into the queues, except deleted ones. Return the number of entries; at a second call 0."""
        entries, self._entries = self._entries, []
        self._admit(entries)
        return len(entries)

    def abandon(self) -> None:
        """Discard the messages: the transaction has failed."""
        entries, self._entries = self._entries, []
        for queue, entry in entries:
            _drop(queue, entry)

    def add(self, queue: Queue, message: Message) -> None:
        entry = queue.entry_for(message)
        if queue.stores(message):
            entry.is_stored = True
            self.ops.append(queue.row_for(entry))
        self._entries.append((queue, entry))

    def is_refused_by(self, queue: Queue, message: Message) -> bool:
        """Return whether the queue would refuse the message after those already prepared for it."""
        if not queue.is_limited:
            return False
        ahead = [entry.message.size for other, entry in self._entries if other is queue]
        return queue.would_refuse(len(ahead) + 1, sum(ahead) + message.size)


class SessionHooks(Struct):
    """Callbacks for connections that have opened the virtual host."""

    on_open: Callable[[SessionInfo], None] = lambda _: None
    on_close: Callable[[SessionInfo], None] = lambda _: None


class _Death(Struct):
    queue: Queue
    message: Message
    reason: DeathReason
    entry: QueueEntry | None  #: in its queue, whose row stays until it is routed; None for a refused publish
    is_retained: bool = False
    leads: bool = False  #: whether the other retained deaths of its queue are tried again if it can be routed


class VirtualHost(VhostDefinitions):
    """One virtual host."""

    def __init__(
        self, name: str, env: Environment, new_queue_id: Callable[[], int], limits: VhostLimits | None = None
    ) -> None:
        super().__init__(name, env, new_queue_id, limits or VhostLimits())
        self.hooks: list[SessionHooks] = []
        #: sends a direct reply to the channel in the routing key; returns whether the channel exists
        self.send_reply: Callable[[Message], bool] = lambda _: False
        self._deaths: deque[_Death] = deque()
        self._retained: dict[Queue, deque[_Death]] = {}  # deaths at least once that could not be routed
        self._retry: Timer | None = None
        self._is_routing_dead = False
        env.report_to(self._on_dead, self._on_unused, self.route_dead_letters)

    def register(self, service: ServiceExchange | ServiceQueue) -> None:
        if isinstance(service, ServiceExchange):
            self.exchanges[service.name] = service
        else:
            self.queues[service.name] = service

    def _on_dead(self, queue: Queue, message: Message, reason: DeathReason, entry: QueueEntry | None) -> None:
        retain(message.body)
        self._deaths.append(_Death(queue, message, reason, entry))

    def _on_unused(self, queue: Queue) -> None:
        self.remove_queue(queue)

    # Messages.

    def route(self, exchange: Exchange, routing_key: str, headers: Callable[[], Mapping[str, object]]) -> list[Queue]:
        """Return the queues that one routing key reaches, each once."""
        if not exchange.name:
            queue = self.queues.get(routing_key)
            return [queue] if isinstance(queue, Queue) else []
        return route(exchange, routing_key, headers, self.exchanges.get)  # type: ignore[return-value] # never services

    def route_message(self, exchange: Exchange, message: Message) -> list[Queue]:
        """Return the queues that the routing keys of a message reach, also CC and BCC, each once."""
        if not (exchange.name or message.extra_keys):
            queue = self.queues.get(message.routing_key)
            return [queue] if isinstance(queue, Queue) else []
        queues = self.route(exchange, message.routing_key, message.headers)
        if not message.extra_keys:
            return queues
        by_all_keys = dict.fromkeys(queues)  # a list would compare each queue with all others
        for key in dict.fromkeys(message.extra_keys):
            by_all_keys.update(dict.fromkeys(self.route(exchange, key, message.headers)))
        return list(by_all_keys)

    def check_keys(self, exchange: Exchange, message: Message) -> None:
        """Raise AccessRefused if a routing key of a client's message, also in CC or BCC, names a queue of the node."""
        if exchange.name:
            return
        for key in message.routing_keys:
            if isinstance(self.queues.get(key), ServiceQueue):
                raise refusals.belongs_to_node("queue", key, self.name, "only the node puts messages into it")

    def send(self, message: Message, queues: Sequence[Queue], refused: Departure = Departure.REFUSED) -> PublishResult:
        """Put a message into these queues, except full ones that refuse it. ``refused``: how the latter are counted."""
        if len(queues) == 1 and not queues[0].is_limited:
            return _TO_BE_STORED if queues[0].publish(message) else _ACCEPTED
        outcome = PublishResult()
        for queue in queues:
            if queue.is_limited and queue.refuses(message, refused):
                outcome.is_refused = True
                continue
            outcome.queues += 1
            if queue.publish(message):
                outcome.must_be_stored = True
        return outcome

    def publish(self, exchange: Exchange, message: Message, mandatory: bool = False) -> PublishResult:
        """Put a client's message into the queues that it reaches, or send a direct reply to the channel. A message that
        reaches neither is returned by the caller if it is ``mandatory``. Raises as ``check_keys`` does.
        """
        queues = self.route_message(exchange, message)
        if message.extra_keys or not queues:
            self.check_keys(exchange, message)
        return self._publish(exchange, message, queues, mandatory)

    def _publish(
        self, exchange: Exchange, message: Message, queues: Sequence[Queue], mandatory: bool = False
    ) -> PublishResult:
        if not exchange.name and message.routing_key.startswith(REPLY_PREFIX):
            outcome = PublishResult(int(self.send_reply(message)))
        else:
            outcome = self.send(message, queues)
        if not (outcome.queues or outcome.is_refused):
            way = Departure.RETURNED if mandatory else Departure.UNROUTED
            self.env.departures.note(way, _place(exchange), routing_key=message.routing_key)
        return outcome

    def publish_internal(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes) -> PublishResult:
        """Publish a message of the node. Raises NotFound if the exchange does not exist."""
        source, message = self.find_exchange(exchange), Message(exchange, routing_key, header, body)
        outcome = self._publish(source, message, self.route_message(source, message))
        self.route_dead_letters()
        return outcome

    def prepare_publish(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes) -> PreparedPublish:
        """Prepare a message for a transaction of the node, without full queues that refuse it. Raises NotFound if the
        exchange does not exist."""
        message = Message(exchange, routing_key, header, body)
        prepared = self.prepare_nothing()
        for queue in self.route_message(self.find_exchange(exchange), message):
            if queue.is_limited and queue.refuses(message):
                continue
            prepared.add(queue, message)
        return prepared

    def prepare_nothing(self) -> PreparedPublish:
        """Return a publish without messages, for ``prepare``."""
        return PreparedPublish([], [], self._admit_prepared)

    def prepare(self, prepared: PreparedPublish, exchange: Exchange, message: Message) -> bool:
        """Add a client's message to a prepared publish; return whether it reaches a queue. Raises PreconditionFailed if
        a full queue would refuse it, and as ``check_keys`` does.
        """
        queues = self.route_message(exchange, message)
        self.check_keys(exchange, message)
        if any(prepared.is_refused_by(queue, message) for queue in queues):
            raise refusals.bad_request("a full queue refused a message of the transaction")
        for queue in queues:
            prepared.add(queue, message)
        return bool(queues)

    def publish_nowhere(self, exchange: Exchange, message: Message, mandatory: bool) -> bool:
        """Send a message without a queue as direct reply, or note its departure; return whether it was sent."""
        return bool(self._publish(exchange, message, (), mandatory).queues)

    def _admit_prepared(self, entries: list[tuple[Queue, QueueEntry]]) -> None:
        for queue, entry in entries:
            if queue.is_deleted:
                self.env.departures.note_of_queue(Departure.QUEUE_DELETED, queue.name)
                _drop(queue, entry)
                continue
            queue.admit(entry)
            queue.pump()
        self.route_dead_letters()

    def route_dead_letters(self) -> None:
        """Send dead messages to the dead-letter exchanges."""
        if self._is_routing_dead:
            return
        self._is_routing_dead = True
        try:
            while self._deaths:
                death = self._deaths.popleft()
                leads, death.leads = death.leads, False
                added = self.env.journal.added_count
                if self._route_dead_letter(death):
                    self._end_death(death, self.env.journal.messages_since(added))
                    if leads:
                        self._deaths.extend(self._retained.pop(death.queue, ()))
                else:
                    self._retain(death)
        finally:
            self._is_routing_dead = False

    def _end_death(self, death: _Death, became: Sequence[AddMessage]) -> None:
        release(death.message.body)
        if death.entry is not None:
            death.queue.forget_dead(death.entry, became)

    def _retain(self, death: _Death) -> None:
        if not death.is_retained:
            self.env.departures.note_of_queue(Departure.DEAD_LETTER_RETAINED, death.queue.name)
        death.is_retained = True
        self._retained.setdefault(death.queue, deque()).append(death)
        if self._retry is None:
            self._retry = self.env.timers.at(self.env.clock.monotonic() + RETRY_S, self._retry_retained)

    def _retry_retained(self) -> None:
        """Route one retained death of each queue again, and after it, if it succeeds, the others."""
        self._retry = None
        for queue, waiting in list(self._retained.items()):
            death = waiting.popleft()
            death.leads = True
            self._deaths.append(death)
            if not waiting:
                del self._retained[queue]

    @property
    def has_dead_letters(self) -> bool:
        return bool(self._deaths)

    def note_transient(self) -> None:
        """Note the messages that end with this process."""
        for queue in self.holding:
            retained = (death.entry for death in self._retained.get(queue, ()))
            count = sum(entry is not None and not entry.is_stored for entry in retained)
            self.env.departures.note_of_queue(Departure.TRANSIENT, queue.name, queue.ready.transient_count + count)

    def _route_dead_letter(self, death: _Death) -> bool:
        """Route a dead message, or note its loss; return False if it must be retained."""
        settings, departures = death.queue.settings, self.env.departures
        exchange = self.exchanges.get(settings.dead_letter_exchange or "")
        must_arrive = settings.at_least_once and death.entry is not None and not death.queue.is_deleted
        if exchange is None or is_closed(exchange):  # closed: declared by an older version
            if not must_arrive:
                departures.note_of_queue(Departure.DEAD_LETTER_UNROUTED, death.queue.name)
            return not must_arrive
        if isinstance(death.queue, DelayQueue):
            return self._route_due(exchange, when_due(death.message))
        message = dead_letter(
            death.message,
            death.queue.name,
            death.reason,
            self.env.clock.wall(),
            exchange.name,
            settings.dead_letter_routing_key,
        )
        queues = self.route_message(exchange, message)
        if must_arrive and (not queues or any(q.is_limited and q.would_refuse(1, message.size) for q in queues)):
            return False
        if not queues:
            departures.note_of_queue(Departure.DEAD_LETTER_UNROUTED, death.queue.name, routing_key=message.routing_key)
        open_queues = []
        for queue in queues:
            if would_cycle(message, queue.name):
                departures.note_of_queue(Departure.CYCLE, queue.name)
            else:
                open_queues.append(queue)
        if self.send(message, open_queues, Departure.DEAD_LETTER_REFUSED).queues:
            departures.note_of_queue(Departure.DEAD_LETTERED, death.queue.name)
        return True

    def _route_due(self, exchange: Exchange, message: Message) -> bool:
        """Route a message of a delayed exchange that is due; return False if it must be retained."""
        queues = self.route_message(exchange, message)
        if any(queue.is_limited and queue.would_refuse(1, message.size) for queue in queues):
            return False
        if not self.send(message, queues).queues:
            self.env.departures.note(Departure.UNROUTED, _place(exchange), routing_key=message.routing_key)
        return True


def _drop(queue: Queue, entry: QueueEntry) -> None:
    """Drop an entry that was not admitted."""
    release(entry.message.body)
    if isinstance(queue, DelayQueue):
        queue.note_unused(entry)


def _place(exchange: Exchange) -> str:
    return f"exchange {exchange.name}" if exchange.name else "the default exchange"
