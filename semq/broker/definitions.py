"""The exchanges, queues and bindings of a virtual host, and the operations on them.

Pure state without users and permissions. The operations add durable changes to the journal, which takes them back here
if the store refuses them, and raise the AmqpErrors of ``refusals``.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import TypeAlias

from msgspec import Struct

from semq.amqp.wire import Table, decode_table, encode_table
from semq.broker import refusals
from semq.broker.arguments import (
    QUEUE_ARGUMENTS,
    WITHOUT_EFFECT,
    BadArgumentError,
    QueueSettings,
    read_queue_arguments,
)
from semq.broker.environment import Environment
from semq.broker.equivalence import check_exchange, check_flags, check_queue
from semq.broker.queues.delay import DelayQueue
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import (
    DELAYED_TYPE,
    EXCHANGE_TYPES,
    PREDECLARED,
    ROUTING_TYPES,
    Binding,
    DelayedExchange,
    Exchange,
)
from semq.broker.services import ServiceExchange, ServiceQueue
from semq.store.broker.operations import Bind, DeclareExchange, DeclareQueue, DeleteExchange, DeleteQueue, Unbind

AnyQueue: TypeAlias = Queue | ServiceQueue


class VhostLimits(Struct):
    """Limits on the definitions of one virtual host."""

    queues_max: int = 100_000
    exchanges_max: int = 100_000
    bindings_max: int = 1_000_000
    bytes_max: int = 256 << 20  # size of all names and keys (characters) and arguments (bytes) together


class VhostDefinitions:
    """The exchanges and queues of one virtual host, keyed by name; their bindings are in the exchanges."""

    def __init__(self, name: str, env: Environment, new_queue_id: Callable[[], int], limits: VhostLimits) -> None:
        self.name = name
        self.env = env
        self.limits = limits
        self.exchanges: dict[str, Exchange] = {}
        self.queues: dict[str, AnyQueue] = {}
        self.delays: dict[str, DelayQueue] = {}  # of the delayed exchanges, by their names
        self.binding_count = 0
        self.bytes_held = 0
        self._new_queue_id = new_queue_id
        for predeclared, kind in PREDECLARED:
            self.exchanges[predeclared] = EXCHANGE_TYPES[kind](predeclared, durable=True)

    # Entries and their size.

    def put_exchange(self, exchange: Exchange) -> None:
        self.bytes_held += len(exchange.name) + len(exchange.encoded_arguments)
        self.exchanges[exchange.name] = exchange

    def put_delayed(self, exchange: DelayedExchange, queue_id: int) -> DelayQueue:
        """Give a delayed exchange the queue that holds its messages."""
        queue = self.delays[exchange.name] = DelayQueue(exchange, queue_id, self.env)
        exchange.held = queue
        return queue

    @property
    def holding(self) -> Iterator[Queue]:
        """All queues that hold messages."""
        return chain((queue for queue in self.queues.values() if isinstance(queue, Queue)), self.delays.values())

    def put_queue(self, queue: Queue) -> None:
        self.bytes_held += len(queue.name) + len(queue.encoded_arguments)
        self.queues[queue.name] = queue

    def put_binding(self, binding: Binding, arguments: Table) -> None:
        """Add a binding, unless it exists already. Raises ValueError as ``Exchange.bind`` does."""
        if binding.source.bind(binding, arguments):
            self.binding_count += 1
            self.bytes_held += len(binding.routing_key) + len(binding.arguments)

    def _check_room(self, *parts: str | bytes) -> None:
        if self.bytes_held + sum(map(len, parts)) > self.limits.bytes_max:
            raise refusals.definitions_too_large(self.limits.bytes_max, self.name)

    # Exchanges.

    def find_exchange(self, name: str) -> Exchange:
        exchange = self.exchanges.get(name)
        if exchange is None:
            raise refusals.no_exchange(name, self.name)
        return exchange

    def declare_exchange(
        self, name: str, kind: str, durable: bool, auto_delete: bool, internal: bool, arguments: Table
    ) -> bool:
        """Create an exchange, or check that the existing one is equivalent. Return True if something must be stored."""
        existing = self.exchanges.get(name)
        if existing is not None:
            if not (isinstance(existing, ServiceExchange) and kind == existing.service_type):
                self._check_type(kind)
            check_exchange(self.name, existing, kind, durable, auto_delete, internal, arguments)
            return self.env.journal.repeat(self._declaration_of(existing))
        self._check_type(kind)
        if name.startswith("amq."):
            raise refusals.reserved("exchange", name)
        if len(self.exchanges) >= self.limits.exchanges_max:
            raise refusals.too_many("exchange", self.limits.exchanges_max)
        alternate = arguments.get("alternate-exchange")
        if alternate is not None and not isinstance(alternate, str):
            raise refusals.bad_argument("alternate-exchange", "exchange", name, self.name, "expected a string")
        if alternate is not None:
            self._check_target(alternate, "it cannot be an alternate exchange")
        if kind == DelayedExchange.type:
            self._check_delayed_type(arguments.get(DELAYED_TYPE))
        encoded = encode_table(arguments)
        self._check_room(name, encoded)
        exchange = EXCHANGE_TYPES[kind](
            name,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
            encoded_arguments=encoded,
        )
        self.put_exchange(exchange)
        if durable:
            self.env.journal.define(self._declaration_of(exchange), partial(self._remove_exchange, exchange))
        if isinstance(exchange, DelayedExchange):
            self._make_delayed(exchange)
        return durable

    def _declaration_of(self, exchange: Exchange) -> DeclareExchange:
        flags = exchange.auto_delete, exchange.internal
        return DeclareExchange(self.name, exchange.name, exchange.shown_type, *flags, exchange.encoded_arguments)

    def _make_delayed(self, exchange: DelayedExchange) -> None:
        held = self.put_delayed(exchange, self._new_queue_id())
        if exchange.durable:
            self.env.journal.define(self._declaration_of_queue(held), partial(self._remove_exchange, exchange))

    def _declaration_of_queue(self, queue: Queue) -> DeclareQueue:
        return DeclareQueue(queue.queue_id, self.name, queue.name, queue.auto_delete, queue.encoded_arguments)

    def _check_delayed_type(self, kind: object) -> None:
        if not isinstance(kind, str):
            raise refusals.bad_request("Invalid argument, 'x-delayed-type' must be an existing exchange type")
        if kind not in ROUTING_TYPES:
            raise refusals.unknown_exchange_type(kind)

    def _check_target(self, exchange: str, text: str) -> None:
        """Raise AccessRefused if messages of other exchanges and queues must not go to this exchange."""
        target = self.exchanges.get(exchange)
        if target is not None and is_closed(target):
            raise refusals.belongs_to_node("exchange", exchange, self.name, text)

    def _check_type(self, kind: str) -> None:
        if kind not in EXCHANGE_TYPES:
            raise refusals.unknown_exchange_type(kind)

    def delete_exchange(self, name: str, if_unused: bool) -> bool:
        """Delete an exchange and its bindings; a missing exchange is not an error. Return True if something must be
        stored.
        """
        exchange = self.exchanges.get(name)
        if exchange is None:
            return False
        if is_closed(exchange):
            raise refusals.belongs_to_node("exchange", name, self.name, "it cannot be deleted")
        if name.startswith("amq."):
            raise refusals.system_exchange(name, self.name)
        if if_unused and exchange.bindings:
            raise refusals.in_use("exchange", name, self.name)
        return self._remove_exchange(exchange)

    def _remove_exchange(self, exchange: Exchange) -> bool:
        """Remove an exchange, its bindings, and the auto-delete exchanges that thereby lose their last binding.

        Return True if something must be stored.
        """
        is_stored, to_remove = False, [exchange]
        while to_remove:
            removed = to_remove.pop()
            if self.exchanges.get(removed.name) is not removed:
                continue
            del self.exchanges[removed.name]
            self.bytes_held -= len(removed.name) + len(removed.encoded_arguments)
            for binding in [*removed.bindings, *removed.incoming]:
                is_stored |= self._drop_binding(binding)
                if _is_unused(binding.source):
                    to_remove.append(binding.source)
            if removed.durable:
                deletion = DeleteExchange(self.name, removed.name)
                self.env.journal.define(deletion, partial(self._restore_exchange, removed))
                is_stored = True
            if held := self.delays.pop(removed.name, None):
                self._end_queue(held)
        return is_stored

    def _restore_exchange(self, exchange: Exchange) -> None:
        if exchange.name not in self.exchanges:
            self.put_exchange(exchange)
            if isinstance(exchange, DelayedExchange):
                self._make_delayed(exchange)

    # Queues.

    def find_queue(self, name: str, connection: object) -> AnyQueue:
        """Return the queue of that name. Raises NotFound, or ResourceLocked if another connection owns it."""
        queue = self.queues.get(name)
        if queue is None:
            raise refusals.no_queue(name, self.name)
        if isinstance(queue, Queue) and queue.owner is not None and queue.owner is not connection:
            raise refusals.locked(name, self.name)
        return queue

    def declare_queue(
        self,
        name: str,
        durable: bool,
        auto_delete: bool,
        owner: object,
        arguments: Table,
        connection: object,
    ) -> tuple[AnyQueue, bool]:
        """Create a queue, or check that the existing one is equivalent. ``owner`` is the connection of an exclusive
        queue, else None; ``connection`` is the connection that declares. Return the queue and whether something must be
        stored.
        """
        if name in self.queues:
            existing = self.find_queue(name, connection)
            if isinstance(existing, ServiceQueue):
                return existing, self._declare_service_queue(existing, durable, auto_delete, owner, arguments)
            check_queue(self.name, existing, durable, auto_delete, owner, arguments)
            existing.note_use()
            return existing, self.env.journal.repeat(self._declaration_of_queue(existing))
        if name.startswith("amq.") and not name.startswith("amq.gen-"):
            raise refusals.reserved("queue", name)
        return self._make_queue(name, durable, auto_delete, owner, arguments)

    def _make_queue(
        self, name: str, durable: bool, auto_delete: bool, owner: object, arguments: Table
    ) -> tuple[Queue, bool]:
        if len(self.queues) >= self.limits.queues_max:
            raise refusals.too_many("queue", self.limits.queues_max)
        settings = self._read_arguments(name, arguments)
        if settings.queue_type == "quorum":
            self._check_quorum(name, durable, auto_delete, owner)
        if settings.dead_letter_exchange is not None:
            self._check_target(settings.dead_letter_exchange, "it cannot be a dead-letter exchange")
        target = None if settings.dead_letter_exchange else self.queues.get(settings.dead_letter_routing_key or "")
        if isinstance(target, ServiceQueue):
            raise refusals.belongs_to_node("queue", target.name, self.name, "it cannot take dead letters")
        encoded = encode_table(arguments)
        self._check_room(name, encoded)
        queue = Queue(
            name,
            self._new_queue_id(),
            self.env,
            settings,
            durable=durable,
            auto_delete=auto_delete,
            owner=owner,
            arguments=dict(arguments),
            encoded_arguments=encoded,
        )
        self.put_queue(queue)
        is_stored = durable and owner is None
        if is_stored:
            self.env.journal.define(self._declaration_of_queue(queue), partial(self.remove_queue, queue))
        return queue, is_stored

    def _check_quorum(self, name: str, durable: bool, auto_delete: bool, owner: object) -> None:
        """Raise PreconditionFailed if a queue that should be safe would end with a process or a connection."""
        for is_wrong, fault in (
            (auto_delete, "auto-delete"),
            (owner is not None, "exclusive-owner"),
            (not durable, "non-durable"),
        ):
            if is_wrong:
                raise refusals.bad_request(f"invalid property '{fault}' for queue '{name}' in vhost '{self.name}'")

    def _read_arguments(self, queue: str, arguments: Table) -> QueueSettings:
        try:
            return read_queue_arguments(arguments)
        except BadArgumentError as error:
            if error.is_type:
                raise refusals.bad_argument_type(error.reason, error.name, "queue", queue, self.name) from None
            raise refusals.bad_argument(error.name, "queue", queue, self.name, error.reason) from None

    def _declare_service_queue(
        self, queue: ServiceQueue, durable: bool, auto_delete: bool, owner: object, arguments: Table
    ) -> bool:
        """Check a declaration, and apply supported arguments. Return True if something must be stored."""
        if owner is not None:
            raise refusals.locked(queue.name, self.name)
        check_flags(self.name, queue, durable, auto_delete, True, False)
        settings, changed = self._read_arguments(queue.name, arguments), False
        for argument, (field, _) in QUEUE_ARGUMENTS.items():
            received, current = getattr(settings, field), getattr(queue.settings, field)
            if received == current or field in WITHOUT_EFFECT:
                continue
            if argument in queue.supported and argument not in arguments:
                raise refusals.inequivalent_argument(argument, "queue", queue.name, self.name, None, current)
            if argument not in queue.supported or not queue.may_change():
                reason = "it can be changed only while the queue has no consumers"
                reason = reason if argument in queue.supported else queue.refused.get(argument, "it has no effect here")
                raise refusals.bad_argument(argument, "queue", queue.name, self.name, reason)
            changed = True
        supported = encode_table({name: arguments[name] for name in sorted(queue.supported & arguments.keys())})
        queue.queue_id = queue.queue_id or (self._new_queue_id() if changed else 0)
        op = DeclareQueue(queue.queue_id, self.name, queue.name, False, supported)
        if not changed:
            return self.env.journal.repeat(op)
        self.env.journal.define(op, partial(queue.change, queue.settings))
        queue.change(settings)
        return True

    def delete_queue(self, queue: AnyQueue, if_unused: bool, if_empty: bool) -> tuple[int, bool]:
        """Delete a queue; return the number of messages deleted with it, and whether something must be stored."""
        if isinstance(queue, ServiceQueue):
            raise refusals.belongs_to_node("queue", queue.name, self.name, "it cannot be deleted")
        if if_unused and len(queue.consumers):
            raise refusals.in_use("queue", queue.name, self.name)
        if if_empty and len(queue.ready):
            raise refusals.not_empty(queue.name, self.name)
        return self.remove_queue(queue)

    def remove_queue(self, queue: Queue) -> tuple[int, bool]:
        """Do what ``delete_queue`` does, without checks."""
        if self.queues.get(queue.name) is not queue:
            return 0, False
        del self.queues[queue.name]
        self.bytes_held -= len(queue.name) + len(queue.encoded_arguments)
        if queue.owner is not None:
            queue.owner.exclusive_queues.pop(queue, None)
        must_wait = queue.durable and queue.owner is None
        for binding in list(queue.incoming):
            must_wait |= self._unbind(binding)
        return self._end_queue(queue), must_wait

    def _end_queue(self, queue: Queue) -> int:
        """Delete the messages of a queue, and its row; return the number of messages."""
        if queue.durable and queue.owner is None:
            self.env.journal.forget_queue(queue.queue_id)
            take_back = (lambda: None) if isinstance(queue, DelayQueue) else partial(self._restore_queue, queue)
            self.env.journal.define(DeleteQueue(queue.queue_id), take_back)
        return queue.delete()

    def _restore_queue(self, deleted: Queue) -> None:
        """Declare a deleted queue again, without its messages and consumers."""
        if deleted.name in self.queues:
            return
        queue = Queue(
            deleted.name,
            deleted.queue_id,
            self.env,
            deleted.settings,
            durable=True,
            auto_delete=deleted.auto_delete,
            arguments=deleted.arguments,
            encoded_arguments=deleted.encoded_arguments,
        )
        queue.next_position = deleted.next_position  # rows of earlier positions may still have to be deleted
        self.put_queue(queue)

    # Bindings.

    def bind(self, source: Exchange, destination: AnyQueue | Exchange, routing_key: str, arguments: Table) -> bool:
        """Add a binding, unless an identical one exists. Return True if something must be stored."""
        self._check_bindable(source, destination)
        if isinstance(destination, Exchange) and destination.belongs_to_node:
            raise refusals.belongs_to_node("exchange", destination.name, self.name, "only the node publishes to it")
        binding = self._binding(source, destination, routing_key, arguments)
        if binding in source.bindings:
            return self.env.journal.repeat(Bind(*self._operation_arguments(binding)))
        if self.binding_count >= self.limits.bindings_max:
            raise refusals.too_many("binding", self.limits.bindings_max)
        self._check_room(routing_key, binding.arguments)
        try:
            self.put_binding(binding, dict(arguments))
        except ValueError as error:
            raise refusals.bad_request(str(error)) from None
        if _is_durable(binding):
            op = Bind(*self._operation_arguments(binding))
            self.env.journal.define(op, partial(self._drop_binding, binding))
            return True
        return False

    def unbind(self, source: Exchange, destination: AnyQueue | Exchange, routing_key: str, arguments: Table) -> bool:
        """Undo ``bind``; a missing binding is not an error. Return True if something must be stored."""
        self._check_bindable(source, destination)
        binding = self._binding(source, destination, routing_key, arguments)
        return binding in source.bindings and self._unbind(binding)

    def _unbind(self, binding: Binding) -> bool:
        is_stored = self._drop_binding(binding)
        if _is_unused(binding.source):
            is_stored |= self._remove_exchange(binding.source)
        return is_stored

    def _drop_binding(self, binding: Binding) -> bool:
        if not binding.source.unbind(binding):
            return False
        self.binding_count -= 1
        self.bytes_held -= len(binding.routing_key) + len(binding.arguments)
        was_durable = _is_durable(binding)
        if was_durable:
            op = Unbind(*self._operation_arguments(binding))
            self.env.journal.define(op, partial(self._restore_binding, op))
        return was_durable

    def _restore_binding(self, op: Unbind) -> None:
        source = self.exchanges.get(op.source)
        destination = (self.exchanges if op.to_exchange else self.queues).get(op.destination)
        if source is not None and destination is not None:
            binding = Binding(source, destination, op.routing_key, op.arguments)
            self.put_binding(binding, decode_table(op.arguments)[0])

    def _check_bindable(self, source: Exchange, destination: AnyQueue | Exchange) -> None:
        for end in (source, destination):
            if isinstance(end, Exchange) and not end.name:
                raise refusals.default_exchange()
            if end.is_service:
                kind = "exchange" if isinstance(end, Exchange) else "queue"
                raise refusals.belongs_to_node(kind, end.name, self.name, "it cannot be bound")

    def _binding(
        self, source: Exchange, destination: AnyQueue | Exchange, routing_key: str, arguments: Table
    ) -> Binding:
        return Binding(source, destination, routing_key, encode_table(dict(sorted(arguments.items()))))

    def _operation_arguments(self, binding: Binding) -> tuple[str, str, str, bool, str, bytes]:
        to_exchange = isinstance(binding.destination, Exchange)
        names = binding.source.name, binding.destination.name
        return self.name, *names, to_exchange, binding.routing_key, binding.arguments


def is_closed(exchange: Exchange) -> bool:
    """Return whether an exchange is the node's, so that nothing but the node or a publish leads to it."""
    return exchange.is_service or exchange.belongs_to_node


def _is_unused(exchange: Exchange) -> bool:
    return exchange.auto_delete and not exchange.bindings


def _is_durable(binding: Binding) -> bool:
    """Return whether a binding is stored: both ends are durable, and a queue is not exclusive."""
    destination = binding.destination
    if not binding.source.durable:
        return False
    if isinstance(destination, Queue):
        return destination.durable and destination.owner is None
    return isinstance(destination, Exchange) and destination.durable
