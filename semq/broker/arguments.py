"""The arguments of queue.declare: names, permitted values, and fields of ``QueueSettings``. Pure.

Arguments that are not in ``QUEUE_ARGUMENTS`` are stored and shown, but have no effect, and are not compared when a
queue is declared again. The texts of reasons are RabbitMQ's.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from msgspec import Struct

from semq.broker.refusals import field_type

TIMER_MAX_MS = 315_360_000_000  # ten years of 365 days, RabbitMQ's limit of all times
_SHORT_STRING_MAX = 255  # bytes (AMQP 0-9-1, 4.2.5.3)


class BadArgumentError(ValueError):
    """An argument of a declaration has a value that is not permitted."""

    def __init__(self, name: str, reason: str, *, is_type: bool = False) -> None:
        """Make the error. With ``is_type`` the type of the value is wrong, and ``reason`` is the name of that type."""
        super().__init__(f"invalid arg '{name}': {reason}")
        self.name, self.reason, self.is_type = name, reason, is_type


class Overflow(Enum):
    """The action of a full queue when another message arrives."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


class QueueSettings(Struct, frozen=True):
    """The parsed arguments of one queue. Times are in milliseconds, sizes in bytes of the bodies. None means no limit,
    or no dead-letter exchange or key; ``max_priority`` 0 means no priorities.
    """

    message_ttl: int | None = None
    expires: int | None = None
    max_length: int | None = None
    max_length_bytes: int | None = None
    overflow: Overflow = Overflow.DROP_HEAD
    max_priority: int = 0
    dead_letter_exchange: str | None = None
    dead_letter_routing_key: str | None = None
    single_active_consumer: bool = False
    delivery_limit: int | None = None
    at_least_once: bool = False  #: a dead letter stays until all its queues have it
    consumer_timeout: int | None = None  #: after which a delivery without acknowledgement closes its channel
    queue_type: str = "classic"
    queue_mode: str = "default"


def _integer(value: object, maximum: int, reason: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f'"expected integer, got {field_type(value)}"')
    if value < 0:
        raise ValueError(f"{{value_negative,{value}}}")
    if value > maximum:
        raise ValueError(f"{{{reason},{value}}}")
    return value


def _milliseconds(value: object) -> int:
    return _integer(value, TIMER_MAX_MS, "value_too_large")


def _positive_milliseconds(value: object) -> int:
    if value == 0 and not isinstance(value, bool):
        raise ValueError("{value_zero,0}")
    return _milliseconds(value)


def _count(value: object) -> int:
    return _integer(value, 2**63 - 1, "value_too_big")


def _delivery_limit(value: object) -> int | None:
    return None if type(value) is int and value < 0 else _count(value)  # RabbitMQ 4: negative is no limit


def _priority(value: object) -> int:
    return _integer(value, 255, "max_value_exceeded")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{{unacceptable_type,{field_type(value)}}}")
    return value


def _key(value: object) -> str:
    key = _text(value)
    # Dead letters get this key, so it must fit into a short string and into a text of the store.
    if len(key.encode()) > _SHORT_STRING_MAX or "\0" in key:
        raise ValueError("{not_a_short_string}")
    return key


def _exchange(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(field_type(value))
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{{unacceptable_type,{field_type(value)}}}")
    return value


def _overflow(value: object) -> Overflow:
    try:
        return Overflow(value)
    except ValueError:
        raise ValueError("invalid_overflow") from None


def _at_least_once(value: object) -> bool:
    if value not in ("at-most-once", "at-least-once"):
        raise ValueError("invalid_dlx_strategy")
    return bool(value == "at-least-once")


def _one_of(subject: str, *permitted: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in permitted:
            raise ValueError(f"\"unsupported {subject} '{value}'\"")
        return str(value)

    return check


# In RabbitMQ's order: the first argument that differs is the one that is reported.
QUEUE_ARGUMENTS: dict[str, tuple[str, Callable[[object], object]]] = {
    # argument: (field of QueueSettings, check and conversion)
    "x-expires": ("expires", _positive_milliseconds),
    "x-dead-letter-exchange": ("dead_letter_exchange", _exchange),
    "x-dead-letter-routing-key": ("dead_letter_routing_key", _key),
    "x-message-ttl": ("message_ttl", _milliseconds),
    "x-max-length": ("max_length", _count),
    "x-max-length-bytes": ("max_length_bytes", _count),
    "x-max-priority": ("max_priority", _priority),
    "x-overflow": ("overflow", _overflow),
    # The broker itself decides where messages are kept, so ``lazy`` has no effect.
    "x-queue-mode": ("queue_mode", _one_of("queue mode", "default", "lazy")),
    "x-single-active-consumer": ("single_active_consumer", _flag),
    # A quorum queue is a durable queue here: the store gives the same guarantees. ``stream`` is not supported.
    "x-queue-type": ("queue_type", _one_of("queue type", "classic", "quorum")),
    "x-delivery-limit": ("delivery_limit", _delivery_limit),
    "x-dead-letter-strategy": ("at_least_once", _at_least_once),
    "x-consumer-timeout": ("consumer_timeout", _positive_milliseconds),
}


# Argument | value that is equivalent to its absence
EQUIVALENT_DEFAULTS = {"x-queue-type": "classic"}

# Fields of QueueSettings that make no difference to what a queue does.
WITHOUT_EFFECT = frozenset({"queue_type", "queue_mode"})


def read_queue_arguments(arguments: Mapping[str, object]) -> QueueSettings:
    """Return the settings that the arguments request. Raises BadArgumentError."""
    fields: dict[str, Any] = {}
    for name, (field, check) in QUEUE_ARGUMENTS.items():
        if name in arguments:
            try:
                fields[field] = check(arguments[name])
            except (ValueError, TypeError) as error:
                raise BadArgumentError(name, str(error), is_type=isinstance(error, TypeError)) from None
    if "dead_letter_routing_key" in fields and "dead_letter_exchange" not in fields:
        raise BadArgumentError("x-dead-letter-routing-key", "routing_key_but_no_dlx_defined")
    settings = QueueSettings(**fields)
    has_limit = settings.max_length is not None or settings.max_length_bytes is not None
    if settings.at_least_once and has_limit and settings.overflow is Overflow.DROP_HEAD:
        raise BadArgumentError("x-dead-letter-strategy", "at-least-once with a limit needs x-overflow reject-publish")
    return settings


def first_difference(arguments: Mapping[str, object], current: Mapping[str, object]) -> str | None:
    """Return the first argument in QUEUE_ARGUMENTS that differs between two declarations, or None."""
    for name in QUEUE_ARGUMENTS:
        default = EQUIVALENT_DEFAULTS.get(name)
        if arguments.get(name, default) != current.get(name, default):
            return name
    return None
