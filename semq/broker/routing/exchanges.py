"""Exchanges, which choose the destinations of a message, one class for each type; routing from one to queues. Pure.

Rules: AMQP 0-9-1, 3.1.3 (types), and RabbitMQ's extensions: all-with-x, any-with-x, exchange-to-exchange bindings, and
the plugin for delayed messages.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from semq.amqp.wire import Table, Timestamp
from semq.broker import refusals
from semq.broker.arguments import TIMER_MAX_MS
from semq.broker.routing.headers_match import HeadersPattern
from semq.broker.routing.topic import TopicIndex
from semq.foreign_text import shortened

Headers: TypeAlias = Callable[[], Mapping[str, object]]  # returns the headers of the message

_CACHE_MAX = 8192  # size of a topic exchange's cache, in keys and destinations


class BindingDestination(Protocol):
    """The destination of a binding: a queue, a service queue or an exchange."""

    name: str
    incoming: "dict[Binding, None]"


class Binding(NamedTuple):
    """One binding."""

    source: "Exchange"
    destination: BindingDestination
    routing_key: str
    arguments: bytes


class Exchange:
    """One exchange and its bindings. Subclasses implement ``match``, ``_index`` and ``_unindex``."""

    type: ClassVar[str] = ""
    is_service: ClassVar[bool] = False
    compared: ClassVar[tuple[str, ...]] = ("alternate-exchange",)  #: arguments that must be equal in each declaration
    __slots__ = (
        "alternate",
        "arguments",
        "auto_delete",
        "belongs_to_node",
        "bindings",
        "durable",
        "encoded_arguments",
        "exchange_destination_count",
        "incoming",
        "internal",
        "name",
    )

    def __init__(
        self,
        name: str,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Table | None = None,
        encoded_arguments: bytes = b"",
    ) -> None:
        self.name = name
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments = dict(arguments or {})
        self.encoded_arguments = encoded_arguments
        alternate = self.arguments.get("alternate-exchange")
        self.alternate = alternate if isinstance(alternate, str) else None
        self.bindings: dict[Binding, Mapping[str, object]] = {}  # from this exchange, with their arguments
        self.incoming: dict[Binding, None] = {}  # from other exchanges to this one
        self.exchange_destination_count = 0  # bindings whose destination is an exchange
        self.belongs_to_node = False  #: only the node publishes here; clients may bind their queues, and not delete it

    @property
    def shown_type(self) -> str:
        """The type as clients name it."""
        return self.type

    def bind(self, binding: Binding, arguments: Mapping[str, object]) -> bool:
        """Add a binding; return False if it existed. Raises ValueError for invalid arguments (headers exchange)."""
        if binding in self.bindings:
            return False
        self._index(binding, arguments)
        self.bindings[binding] = arguments
        binding.destination.incoming[binding] = None
        self.exchange_destination_count += isinstance(binding.destination, Exchange)
        return True

    def unbind(self, binding: Binding) -> bool:
        """Remove a binding; return False if it did not exist."""
        if binding not in self.bindings:
            return False
        del self.bindings[binding]
        binding.destination.incoming.pop(binding, None)
        self.exchange_destination_count -= isinstance(binding.destination, Exchange)
        self._unindex(binding)
        return True

    def match(self, routing_key: str, headers: Headers) -> Iterable[BindingDestination]:
        """Return the destinations of one message, possibly with repetitions. ``headers`` is called only if needed."""
        raise NotImplementedError

    def _index(self, binding: Binding, arguments: Mapping[str, object]) -> None:
        raise NotImplementedError

    def _unindex(self, binding: Binding) -> None:
        raise NotImplementedError


class _KeyedExchange(Exchange):
    """An exchange that needs no headers for routing. Bindings that differ only in arguments share one index entry."""

    __slots__ = ("_pairs",)

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._pairs: Counter[tuple[str, BindingDestination]] = Counter()

    def _index(self, binding: Binding, arguments: Mapping[str, object]) -> None:
        pair = self._pair(binding)
        self._pairs[pair] += 1
        if self._pairs[pair] == 1:
            self._add(*pair)

    def _unindex(self, binding: Binding) -> None:
        pair = self._pair(binding)
        self._pairs[pair] -= 1
        if not self._pairs[pair]:
            del self._pairs[pair]
            self._remove(*pair)

    def _pair(self, binding: Binding) -> tuple[str, BindingDestination]:
        return binding.routing_key, binding.destination

    def _add(self, key: str, destination: BindingDestination) -> None:
        raise NotImplementedError

    def _remove(self, key: str, destination: BindingDestination) -> None:
        raise NotImplementedError


class DirectExchange(_KeyedExchange):
    """An exchange that routes to bindings with an equal routing key."""

    type = "direct"
    __slots__ = ("_keys",)

    def __init__(self, name: str, **settings: object) -> None:
        super().__init__(name, **settings)
        self._keys: dict[str, dict[BindingDestination, None]] = {}

    def match(self, routing_key: str, headers: Headers) -> Iterable[BindingDestination]:
        return self._keys.get(routing_key, ())

    def _add(self, key: str, destination: BindingDestination) -> None:
        self._keys.setdefault(key, {})[destination] = None

    def _remove(self, key: str, destination: BindingDestination) -> None:
        bound = self._keys[key]
        del bound[destination]
        if not bound:
            del self._keys[key]


class FanoutExchange(_KeyedExchange):
    """An exchange that routes to every destination, regardless of the key."""

    type = "fanout"
    __slots__ = ("_all",)

    def __init__(self, name: str, **settings: object) -> None:
        super().__init__(name, **settings)
        self._all: dict[BindingDestination, None] = {}

    def match(self, routing_key: str, headers: Headers) -> Iterable[BindingDestination]:
        return self._all

    def _pair(self, binding: Binding) -> tuple[str, BindingDestination]:
        return "", binding.destination

    def _add(self, key: str, destination: BindingDestination) -> None:
        self._all[destination] = None

    def _remove(self, key: str, destination: BindingDestination) -> None:
        del self._all[destination]


class TopicExchange(_KeyedExchange):
    """An exchange that routes by patterns of words; the result for a key is cached until a binding changes."""

    type = "topic"
    __slots__ = ("_cache", "_cache_size", "_topics")

    def __init__(self, name: str, **settings: object) -> None:
        super().__init__(name, **settings)
        self._topics: TopicIndex[BindingDestination] = TopicIndex()
        self._cache: dict[str, tuple[BindingDestination, ...]] = {}
        self._cache_size = 0  # a key that matches ten thousand queues counts as ten thousand

    def match(self, routing_key: str, headers: Headers) -> Iterable[BindingDestination]:
        destinations = self._cache.get(routing_key)
        if destinations is None:
            destinations = tuple(dict.fromkeys(self._topics.match(routing_key)))
            self._cache_result(routing_key, destinations)
        return destinations

    def _cache_result(self, key: str, destinations: tuple[BindingDestination, ...]) -> None:
        if self._cache_size >= _CACHE_MAX:
            self._clear_cache()
        self._cache[key] = destinations
        self._cache_size += 1 + len(destinations)

    def _clear_cache(self) -> None:
        self._cache.clear()
        self._cache_size = 0

    def _add(self, key: str, destination: BindingDestination) -> None:
        self._clear_cache()
        self._topics.add(key, destination)

    def _remove(self, key: str, destination: BindingDestination) -> None:
        self._clear_cache()
        self._topics.remove(key, destination)


class HeadersExchange(Exchange):
    """An exchange that compares the headers of the message with the arguments of the binding."""

    type = "headers"
    __slots__ = ("_patterns",)

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self._patterns: dict[Binding, HeadersPattern] = {}

    def match(self, routing_key: str, headers: Headers) -> Iterable[BindingDestination]:
        message_headers = headers()
        return [binding.destination for binding, pattern in self._patterns.items() if pattern.matches(message_headers)]

    def _index(self, binding: Binding, arguments: Mapping[str, object]) -> None:
        self._patterns[binding] = HeadersPattern(arguments)

    def _unindex(self, binding: Binding) -> None:
        del self._patterns[binding]


ROUTING_TYPES: dict[str, type[Exchange]] = {
    kind.type: kind for kind in (DirectExchange, FanoutExchange, TopicExchange, HeadersExchange)
}
"""The types by which exchanges route."""


class DelayedExchange(Exchange):
    """An exchange that routes by the type in its argument ``x-delayed-type``, messages with a delay when they are due.

    Until then ``held`` has them, a queue without consumers. It returns them with a negative delay.
    """

    type = "x-delayed-message"
    compared = ("alternate-exchange", "x-delayed-type")
    __slots__ = ("_inner", "held")

    def __init__(self, name: str, **settings: Any) -> None:
        super().__init__(name, **settings)
        self.held: BindingDestination | None = None
        self._inner = ROUTING_TYPES[str(self.arguments[DELAYED_TYPE])](name)

    def match(self, routing_key: str, headers: Headers) -> Iterable[BindingDestination]:
        if self.held is not None and delay_of(headers()):
            return (self.held,)
        return self._inner.match(routing_key, headers)

    def check(self, headers: Mapping[str, object]) -> None:
        """Check the headers of a message that a client publishes. Raises PreconditionFailed."""
        if DELAY in headers and _milliseconds(headers[DELAY]) > TIMER_MAX_MS:
            value = shortened(str(headers[DELAY]), 40)
            text = f"header {DELAY} must be a number of milliseconds up to {TIMER_MAX_MS}, not {value}"
            raise refusals.bad_request(text)
        if delay_of(headers) and "BCC" in headers:
            raise refusals.bad_request("a message with a delay cannot have a header BCC, which would be lost meanwhile")

    def _index(self, binding: Binding, arguments: Mapping[str, object]) -> None:
        self._inner._index(binding, arguments)

    def _unindex(self, binding: Binding) -> None:
        self._inner._unindex(binding)


def delay_of(headers: Mapping[str, object]) -> int:
    """Return the milliseconds for which a delayed exchange holds a message; 0 for one that it routes at once."""
    delay = _milliseconds(headers.get(DELAY))
    return delay if 0 < delay <= TIMER_MAX_MS else 0


def _milliseconds(value: object) -> int:
    """Return a number of milliseconds; _NO_NUMBER for any other value."""
    if isinstance(value, bool | Timestamp) or not isinstance(value, int | float | Decimal | str):
        return _NO_NUMBER
    try:
        return int(value) if not isinstance(value, str) or _INTEGER.fullmatch(value) else _NO_NUMBER
    except (ValueError, OverflowError):  # not finite, or too many digits
        return _NO_NUMBER


DELAY, DELAYED_TYPE = "x-delay", "x-delayed-type"
_INTEGER = re.compile("-?[0-9]+")
_NO_NUMBER = TIMER_MAX_MS + 1

EXCHANGE_TYPES: dict[str, type[Exchange]] = {**ROUTING_TYPES, DelayedExchange.type: DelayedExchange}
"""The types that exchange.declare accepts."""

PREDECLARED: tuple[tuple[str, str], ...] = (
    # name, type (AMQP 0-9-1, 3.1.3; amq.match in addition to amq.headers, as in RabbitMQ)
    ("", "direct"),
    ("amq.direct", "direct"),
    ("amq.fanout", "fanout"),
    ("amq.topic", "topic"),
    ("amq.headers", "headers"),
    ("amq.match", "headers"),
)


def route(
    start: Exchange, routing_key: str, headers: Headers, lookup: Callable[[str], Exchange | None]
) -> list[BindingDestination]:
    """Return the queues for a message published to ``start``, each once; cycles of exchanges are safe.

    ``lookup`` finds an exchange by name; an alternate exchange that does not exist is ignored, as in RabbitMQ. No other
    exchange leads to one that belongs to the node or is a service.
    """
    if not start.exchange_destination_count and start.alternate is None:
        return list(dict.fromkeys(start.match(routing_key, headers)))
    queues: dict[BindingDestination, None] = {}
    todo, seen = [start], {start.name}
    while todo:
        for destination in _step(todo.pop(), routing_key, headers, lookup):
            if not isinstance(destination, Exchange):
                queues[destination] = None
            elif destination.name not in seen and not destination.belongs_to_node:
                seen.add(destination.name)
                todo.append(destination)
    return list(queues)


def _step(
    exchange: Exchange, routing_key: str, headers: Headers, lookup: Callable[[str], Exchange | None]
) -> list[BindingDestination]:
    """Return the destinations of one exchange, or if there are none its alternate exchange."""
    destinations = list(exchange.match(routing_key, headers))
    if destinations or exchange.alternate is None:
        return destinations
    alternate = lookup(exchange.alternate)
    return [] if alternate is None or alternate.is_service else [alternate]
