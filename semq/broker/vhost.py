"""A virtual host: definitions, services of the node, and the routing of messages. Pure state."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semq.amqp.content import ContentHeader
from semq.broker.definitions import VhostDefinitions, VhostLimits
from semq.broker.environment import DeathReason, Environment
from semq.broker.generated_names import REPLY_PREFIX
from semq.broker.queues.bodies import release, retain
from semq.broker.queues.deadletter import dead_letter, would_cycle
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import Exchange
from semq.broker.routing.routes import route
from semq.broker.services import ServiceExchange, ServiceQueue, SessionInfo
from semq.store.broker.operations import StoreOp


@dataclass(slots=True)
class PublishResult:
    """The result of a publish."""

    queues: int = 0  #: number of queues that have the message; for a direct reply, of channels
    must_be_stored: bool = False  #: before the message is confirmed
    is_refused: bool = False  #: by a queue


# Shared results, never changed.
_ACCEPTED, _TO_BE_STORED = PublishResult(1), PublishResult(1, True)


@dataclass(slots=True)
class PreparedPublish:
    """A message that the caller stores in its own transaction: it writes ``ops``, and calls ``commit`` after the
    transaction. Only then consumers see the message."""

    ops: list[StoreOp]
    _entries: list[tuple[Queue, QueueEntry]]
    _admit: Callable[[list[tuple[Queue, QueueEntry]]], None]

    def commit(self) -> int:
        """Put the message into the queues, except deleted ones. Return the number of prepared queues; at a second call
        0."""
        entries, self._entries = self._entries, []
        self._admit(entries)
        return len(entries)


@dataclass(slots=True)
class SessionHooks:
    """Callbacks for connections that have opened the virtual host."""

    on_open: Callable[[SessionInfo], None] = lambda _: None
    on_close: Callable[[SessionInfo], None] = lambda _: None


@dataclass(slots=True)
class _Death:
    queue: Queue
    message: Message
    reason: DeathReason


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
        self._is_routing_dead = False
        env.report_to(self._on_dead, self._on_unused, self.route_dead_letters)

    def register(self, service: ServiceExchange | ServiceQueue) -> None:
        if isinstance(service, ServiceExchange):
            self.exchanges[service.name] = service
        else:
            self.queues[service.name] = service

    def _on_dead(self, queue: Queue, message: Message, reason: DeathReason) -> None:
        retain(message.body)
        self._deaths.append(_Death(queue, message, reason))

    def _on_unused(self, queue: Queue) -> None:
        self.remove_queue(queue)

    # Messages.

    def route(self, exchange: Exchange, routing_key: str, headers: Callable[[], Mapping[str, Any]]) -> list[Queue]:
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

    def send(self, message: Message, queues: Sequence[Queue]) -> PublishResult:
        """Put a message into these queues, except full ones that refuse it."""
        if len(queues) == 1 and not queues[0].is_limited:
            return _TO_BE_STORED if queues[0].publish(message) else _ACCEPTED
        outcome = PublishResult()
        for queue in queues:
            if queue.is_limited and queue.refuses(message):
                outcome.is_refused = True
                continue
            outcome.queues += 1
            if queue.publish(message):
                outcome.must_be_stored = True
        return outcome

    def publish(self, exchange: Exchange, message: Message) -> PublishResult:
        """Put a message into the queues that it reaches, or send a direct reply to the channel."""
        if not exchange.name and message.routing_key.startswith(REPLY_PREFIX):
            return PublishResult(int(self.send_reply(message)))
        return self.send(message, self.route_message(exchange, message))

    def publish_internal(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes) -> PublishResult:
        """Publish a message of the node. Raises NotFound if the exchange does not exist."""
        outcome = self.publish(self.find_exchange(exchange), Message(exchange, routing_key, header, body))
        self.route_dead_letters()
        return outcome

    def prepare_publish(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes) -> PreparedPublish:
        """Prepare a message for a transaction of the node, without full queues that refuse it. Raises NotFound if the
        exchange does not exist."""
        message = Message(exchange, routing_key, header, body)
        prepared = PreparedPublish([], [], self._admit_prepared)
        for queue in self.route_message(self.find_exchange(exchange), message):
            if queue.is_limited and queue.refuses(message):
                continue
            entry = queue.entry_for(message)
            if queue.stores(message):
                entry.is_stored = True
                prepared.ops.append(queue.row_for(entry))
            prepared._entries.append((queue, entry))  # noqa: SLF001 - PreparedPublish belongs to this class
        return prepared

    def _admit_prepared(self, entries: list[tuple[Queue, QueueEntry]]) -> None:
        for queue, entry in entries:
            if not queue.is_deleted:
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
                self._route_dead_letter(death)
                release(death.message.body)
        finally:
            self._is_routing_dead = False

    @property
    def has_dead_letters(self) -> bool:
        return bool(self._deaths)

    def _route_dead_letter(self, death: _Death) -> None:
        settings = death.queue.settings
        exchange = self.exchanges.get(settings.dead_letter_exchange or "")
        if exchange is None or exchange.is_service or exchange.belongs_to_node:
            return
        message = dead_letter(
            death.message,
            death.queue.name,
            death.reason,
            self.env.clock.wall(),
            exchange.name,
            settings.dead_letter_routing_key,
        )
        queues = self.route_message(exchange, message)
        self.send(message, [queue for queue in queues if not would_cycle(message, queue.name)])
