"""A virtual host: its exchanges, queues and bindings by name, what may be done to them, and the way of a message
through them.

Pure state; no users, no permissions, no sockets: ``commands`` asks for those before it comes here. Everything that
must survive goes to the journal in the same call, so one turn's changes become one list for the store. Raises the
AmqpErrors of ``refusals``. Services of the node are registered here beside ordinary exchanges and queues.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from semq.amqp.content import ContentHeader
from semq.amqp.wire import encode_table
from semq.broker import refusals
from semq.broker.arguments import BadArgumentError, first_difference, read_queue_arguments
from semq.broker.deadletter import after_death, goes_in_circles
from semq.broker.exchanges import EXCHANGE_TYPES, PREDECLARED, Binding, Exchange
from semq.broker.message import Message
from semq.broker.persist import Bind, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, StoreOp, Unbind
from semq.broker.queue import DeathReason, Environment, Queue
from semq.broker.ready import Entry
from semq.broker.routing import route
from semq.broker.services import ServiceExchange, ServiceQueue, SessionInfo

AnyQueue: TypeAlias = Queue | ServiceQueue


@dataclass(slots=True)
class Sent:
    """What became of a message: how many queues took it, whether it must be stored first, whether one refused it."""

    queues: int = 0
    must_be_stored: bool = False
    is_refused: bool = False


@dataclass(slots=True)
class Prepared:
    """A message that the caller stores in its own transaction: ``ops`` to write there, ``commit`` to call after it.

    Until ``commit`` no consumer sees it; without ``commit`` it was never there.
    """

    ops: list[StoreOp]
    _entries: list[tuple[Queue, Entry]]
    _admit: Callable[[list[tuple[Queue, Entry]]], None]

    def commit(self) -> int:
        """Put the message into its queues; the number of queues."""
        entries, self._entries = self._entries, []
        self._admit(entries)
        return len(entries)


@dataclass(slots=True)
class SessionHooks:
    """Called when a connection to the virtual host is opened, and when it has ended."""

    on_open: Callable[[SessionInfo], None] = lambda _: None
    on_close: Callable[[SessionInfo], None] = lambda _: None


@dataclass(slots=True)
class VhostLimits:
    """How much one virtual host may hold."""

    queues_max: int = 100_000
    exchanges_max: int = 100_000
    bindings_max: int = 1_000_000


@dataclass(slots=True)
class _Death:
    queue: Queue
    message: Message
    reason: DeathReason


@dataclass(slots=True)
class VirtualHost:
    """One virtual host."""

    name: str
    env: Environment
    new_queue_id: Callable[[], int]
    limits: VhostLimits = field(default_factory=VhostLimits)
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    queues: dict[str, AnyQueue] = field(default_factory=dict)
    hooks: list[SessionHooks] = field(default_factory=list)
    bindings: int = 0
    _deaths: "deque[_Death]" = field(default_factory=deque)
    _is_draining: bool = False

    def __post_init__(self) -> None:
        for name, kind, internal in PREDECLARED:
            self.exchanges[name] = EXCHANGE_TYPES[kind](name, durable=True, internal=internal)
        self.env.on_dead = lambda queue, message, reason: self._deaths.append(_Death(queue, message, reason))
        self.env.on_unused = self._expire

    def register(self, service: ServiceExchange | ServiceQueue) -> None:
        """Let the node serve an exchange or a queue by itself."""
        if isinstance(service, ServiceExchange):
            self.exchanges[service.name] = service
        else:
            self.queues[service.name] = service

    # Exchanges.

    def find_exchange(self, name: str) -> Exchange:
        found = self.exchanges.get(name)
        if found is None:
            raise refusals.no_exchange(name, self.name)
        return found

    def declare_exchange(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Mapping[str, Any]
    ) -> bool:
        """Make an exchange, or check that the one of that name is equivalent. True if something must be stored."""
        found = self.exchanges.get(name)
        if found is not None:
            if not (isinstance(found, ServiceExchange) and kind == found.service_type):
                self._check_type(kind)
            self._check_exchange(found, kind, durable, auto_delete, internal, arguments)
            return False
        self._check_type(kind)
        if name.startswith("amq."):
            raise refusals.reserved("exchange", name)
        if len(self.exchanges) >= self.limits.exchanges_max:
            raise refusals.too_many("exchange", self.limits.exchanges_max)
        alternate = arguments.get("alternate-exchange")
        if alternate is not None and not isinstance(alternate, str):
            raise refusals.bad_argument("alternate-exchange", "exchange", name, self.name, "expected a string")
        self.exchanges[name] = EXCHANGE_TYPES[kind](
            name,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
            frozen_arguments=encode_table(arguments),
        )
        if durable:
            frozen = self.exchanges[name].frozen_arguments
            self.env.journal.add(DeclareExchange(self.name, name, kind, auto_delete, internal, frozen))
        return durable

    def _check_type(self, kind: str) -> None:
        if kind not in EXCHANGE_TYPES:
            raise refusals.unknown_exchange_type(kind)

    def _check_exchange(
        self,
        found: Exchange,
        kind: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, Any],
    ) -> None:
        for name, received, current in (
            ("type", kind, found.shown_type),
            ("durable", durable, found.durable),
            ("auto_delete", auto_delete, found.auto_delete),
            ("internal", internal, found.internal),
            ("alternate-exchange", arguments.get("alternate-exchange"), found.alternate),
        ):
            if received != current:
                raise refusals.inequivalent(name, "exchange", found.name, self.name, received, current)

    def delete_exchange(self, name: str, if_unused: bool) -> bool:
        """Delete an exchange and all bindings from and to it; one that is not there is no error. True: must be
        stored."""
        found = self.exchanges.get(name)
        if found is None:
            return False
        if found.is_service:
            raise refusals.service("exchange", name, self.name, "it cannot be deleted")
        if name.startswith("amq."):
            raise refusals.reserved("exchange", name)
        if if_unused and found.bindings:
            raise refusals.in_use("exchange", name, self.name)
        self._remove_exchange(found)
        return found.durable

    def _remove_exchange(self, exchange: Exchange) -> None:
        if self.exchanges.pop(exchange.name, None) is None:
            return
        for binding in [*exchange.bindings, *exchange.incoming]:
            self._unbind(binding)
        if exchange.durable:
            self.env.journal.add(DeleteExchange(self.name, exchange.name))

    # Queues.

    def find_queue(self, name: str, connection: object) -> AnyQueue:
        """The queue of that name; raises if it is not there, or is another connection's."""
        found = self.queues.get(name)
        if found is None:
            raise refusals.no_queue(name, self.name)
        if isinstance(found, Queue) and found.owner is not None and found.owner is not connection:
            raise refusals.locked(name, self.name)
        return found

    def declare_queue(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: object,
        arguments: Mapping[str, Any],
        connection: object,
    ) -> tuple[AnyQueue, bool]:
        """Make a queue, or check that the one of that name is equivalent. ``owner``: the connection, if exclusive.

        Returns the queue and whether something must be stored.
        """
        if name in self.queues:
            found = self.find_queue(name, connection)
            if isinstance(found, ServiceQueue):
                return found, False
            self._check_queue(found, durable, auto_delete, owner, arguments)
            found.touch()
            return found, False
        if name.startswith("amq.") and not name.startswith("amq.gen-"):
            raise refusals.reserved("queue", name)
        return self._make_queue(name, durable, auto_delete, owner, arguments)

    def _make_queue(
        self, name: str, durable: bool, auto_delete: bool, owner: object, arguments: Mapping[str, Any]
    ) -> tuple[Queue, bool]:
        if len(self.queues) >= self.limits.queues_max:
            raise refusals.too_many("queue", self.limits.queues_max)
        try:
            settings = read_queue_arguments(arguments)
        except BadArgumentError as error:
            raise refusals.bad_argument(error.name, "queue", name, self.name, error.reason) from None
        queue = self.queues[name] = Queue(
            name,
            self.new_queue_id(),
            self.env,
            settings,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            arguments=dict(arguments),
            frozen_arguments=encode_table(arguments),
        )
        is_stored = durable and owner is None
        if is_stored:
            frozen = queue.frozen_arguments
            self.env.journal.add(DeclareQueue(queue.queue_id, self.name, name, auto_delete, frozen))
        return queue, is_stored

    def _check_queue(
        self, found: Queue, durable: bool, auto_delete: bool, owner: object, arguments: Mapping[str, Any]
    ) -> None:
        if (owner is None) != (found.owner is None):
            raise refusals.locked(found.name, self.name)
        for name, received, current in (
            ("durable", durable, found.durable),
            ("auto_delete", auto_delete, found.auto_delete),
        ):
            if received != current:
                raise refusals.inequivalent(name, "queue", found.name, self.name, received, current)
        different = first_difference(arguments, found.arguments)
        if different is not None:
            asked, kept = arguments.get(different), found.arguments.get(different)
            raise refusals.inequivalent(different, "queue", found.name, self.name, asked, kept)

    def delete_queue(self, queue: AnyQueue, if_unused: bool, if_empty: bool) -> tuple[int, bool]:
        """Delete a queue; the number of messages that went with it, and whether something must be stored."""
        if isinstance(queue, ServiceQueue):
            raise refusals.service("queue", queue.name, self.name, "it cannot be deleted")
        if if_unused and len(queue.consumers):
            raise refusals.in_use("queue", queue.name, self.name)
        if if_empty and len(queue.ready):
            raise refusals.not_empty(queue.name, self.name)
        return self.remove_queue(queue), queue.durable and queue.owner is None

    def remove_queue(self, queue: Queue) -> int:
        """Delete without asking: auto-delete, expiry, end of the owning connection."""
        if self.queues.get(queue.name) is not queue:
            return 0
        del self.queues[queue.name]
        for binding in list(queue.incoming):
            self._unbind(binding)
        if queue.durable and queue.owner is None:
            self.env.journal.forget_queue(queue.queue_id)
            self.env.journal.add(DeleteQueue(queue.queue_id))
        return queue.delete()

    def _expire(self, queue: Queue) -> None:
        self.remove_queue(queue)

    # Bindings.

    def bind(
        self, source: Exchange, destination: AnyQueue | Exchange, routing_key: str, arguments: Mapping[str, Any]
    ) -> bool:
        """Bind; the same binding twice is one. True if something must be stored."""
        self._check_bindable(source, destination)
        binding = self._binding(source, destination, routing_key, arguments)
        if self.bindings >= self.limits.bindings_max and binding not in source.bindings:
            raise refusals.too_many("binding", self.limits.bindings_max)
        try:
            if not source.bind(binding, dict(arguments)):
                return False
        except ValueError as error:
            raise refusals.bad_request(str(error)) from None
        self.bindings += 1
        if _survives(binding):
            self.env.journal.add(Bind(*self._row(binding)))
            return True
        return False

    def unbind(
        self, source: Exchange, destination: AnyQueue | Exchange, routing_key: str, arguments: Mapping[str, Any]
    ) -> bool:
        """Undo ``bind``; a binding that is not there is no error. True if something must be stored."""
        self._check_bindable(source, destination)
        binding = self._binding(source, destination, routing_key, arguments)
        return binding in source.bindings and self._unbind(binding)

    def _unbind(self, binding: Binding) -> bool:
        source = binding.source
        if not source.unbind(binding):
            return False
        self.bindings -= 1
        survived = _survives(binding)
        if survived:
            self.env.journal.add(Unbind(*self._row(binding)))
        if source.auto_delete and not source.bindings:
            self._remove_exchange(source)
        return survived

    def _check_bindable(self, source: Exchange, destination: AnyQueue | Exchange) -> None:
        for end in (source, destination):
            if isinstance(end, Exchange) and not end.name:
                raise refusals.default_exchange()
            if end.is_service:
                kind = "exchange" if isinstance(end, Exchange) else "queue"
                raise refusals.service(kind, end.name, self.name, "it cannot be bound")

    def _binding(
        self, source: Exchange, destination: AnyQueue | Exchange, routing_key: str, arguments: Mapping[str, Any]
    ) -> Binding:
        return Binding(source, destination, routing_key, encode_table(dict(sorted(arguments.items()))))

    def _row(self, binding: Binding) -> tuple[str, str, str, bool, str, bytes]:
        to_exchange = isinstance(binding.destination, Exchange)
        names = binding.source.name, binding.destination.name
        return self.name, *names, to_exchange, binding.routing_key, binding.arguments

    # Messages.

    def route(self, exchange: Exchange, routing_key: str, headers: Callable[[], Mapping[str, Any]]) -> list[Queue]:
        """The queues that a message goes to."""
        if not exchange.name:
            found = self.queues.get(routing_key)
            return [found] if isinstance(found, Queue) else []
        return route(exchange, routing_key, headers, self.exchanges.get)  # type: ignore[return-value]  # never services

    def send(self, message: Message, queues: Iterable[Queue]) -> Sent:
        """Put a message into queues."""
        sent = Sent()
        for queue in queues:
            if queue.is_limited and queue.refuses(message):
                sent.is_refused = True
                continue
            sent.queues += 1
            if queue.publish(message):
                sent.must_be_stored = True
        return sent

    def publish_internal(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes) -> Sent:
        """Publish on behalf of the node. Raises NotFound when there is no such exchange."""
        message = Message(exchange, routing_key, header, body)
        sent = self.send(message, self.route(self.find_exchange(exchange), routing_key, message.headers))
        self.bury_dead()
        return sent

    def prepare_publish(self, exchange: str, routing_key: str, header: ContentHeader, body: bytes) -> Prepared:
        """Publish on behalf of the node, in the node's own transaction (see ``Prepared``)."""
        message = Message(exchange, routing_key, header, body)
        prepared = Prepared([], [], self._admit_prepared)
        for queue in self.route(self.find_exchange(exchange), routing_key, message.headers):
            if queue.is_limited and queue.refuses(message):
                continue
            entry = queue.entry_for(message)
            if queue.stores(message):
                entry.is_stored = True
                prepared.ops.append(queue.row_for(entry))
            prepared._entries.append((queue, entry))  # noqa: SLF001 - the two are one
        return prepared

    def _admit_prepared(self, entries: list[tuple[Queue, Entry]]) -> None:
        for queue, entry in entries:
            if not queue.is_deleted:
                queue.admit(entry)
                queue.pump()
        self.bury_dead()

    def bury_dead(self) -> None:
        """Send what has died on its way to the dead-letter exchanges; called when a queue has finished what it did."""
        if self._is_draining:
            return
        self._is_draining = True
        try:
            while self._deaths:
                self._bury(self._deaths.popleft())
        finally:
            self._is_draining = False

    @property
    def has_dead(self) -> bool:
        return bool(self._deaths)

    def _bury(self, death: _Death) -> None:
        settings = death.queue.settings
        exchange = self.exchanges.get(settings.dead_letter_exchange or "")
        if exchange is None or exchange.is_service:
            return
        message = after_death(
            death.message,
            death.queue.name,
            death.reason,
            self.env.clock.wall(),
            exchange.name,
            settings.dead_letter_routing_key,
        )
        queues = self.route(exchange, message.routing_key, message.headers)
        self.send(message, [queue for queue in queues if not goes_in_circles(message, queue.name)])


def _survives(binding: Binding) -> bool:
    destination = binding.destination
    if not binding.source.durable:
        return False
    if isinstance(destination, Queue):
        return destination.durable and destination.owner is None
    return isinstance(destination, Exchange) and destination.durable
