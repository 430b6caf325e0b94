"""What the arguments of queue.declare mean: one table of names, allowed values and fields. Pure; used by ``vhost``.

Arguments that are not in the table are kept, shown and otherwise ignored, as RabbitMQ does with most; they are not
compared when a queue is declared again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

_TIMER_MAX_MS = 2**32 - 1


class BadArgumentError(ValueError):
    """An argument of a declaration has a value that it cannot have."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"invalid arg '{name}': {reason}")
        self.name, self.reason = name, reason


class Overflow(Enum):
    """What a queue at its limit does with one message more."""

    DROP_HEAD = "drop-head"
    REJECT_PUBLISH = "reject-publish"
    REJECT_PUBLISH_DLX = "reject-publish-dlx"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """The arguments of one queue, understood. Times in milliseconds, sizes in octets of body; None is no limit."""

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
    queue_type: str = "classic"


def _integer(value: Any, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("expected an integer")
    if not least <= value <= most:
        raise ValueError(f"{value} is not between {least} and {most}")
    return value


def _milliseconds(value: Any) -> int:
    return _integer(value, 0, _TIMER_MAX_MS)


def _positive_milliseconds(value: Any) -> int:
    return _integer(value, 1, _TIMER_MAX_MS)


def _count(value: Any) -> int:
    return _integer(value, 0, 2**63 - 1)


def _priority(value: Any) -> int:
    return _integer(value, 0, 255)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a string")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("expected a boolean")
    return value


def _overflow(value: Any) -> Overflow:
    return Overflow(_text(value))


def _queue_type(value: Any) -> str:
    # A quorum queue is for us a durable queue: the store gives what a quorum gives elsewhere. Streams are another
    # model.
    if _text(value) not in ("classic", "quorum"):
        raise ValueError(f"queues of type '{value}' are not offered here")
    return str(value)


QUEUE_ARGUMENTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    # argument: (field of QueueSettings, check and conversion)
    "x-message-ttl": ("message_ttl", _milliseconds),
    "x-expires": ("expires", _positive_milliseconds),
    "x-max-length": ("max_length", _count),
    "x-max-length-bytes": ("max_length_bytes", _count),
    "x-overflow": ("overflow", _overflow),
    "x-max-priority": ("max_priority", _priority),
    "x-dead-letter-exchange": ("dead_letter_exchange", _text),
    "x-dead-letter-routing-key": ("dead_letter_routing_key", _text),
    "x-single-active-consumer": ("single_active_consumer", _flag),
    "x-delivery-limit": ("delivery_limit", _count),
    "x-queue-type": ("queue_type", _queue_type),
}


def read_queue_arguments(arguments: Mapping[str, Any]) -> QueueSettings:
    """The settings that the arguments ask for. Raises BadArgumentError."""
    fields: dict[str, Any] = {}
    for name, (field, check) in QUEUE_ARGUMENTS.items():
        if name in arguments:
            try:
                fields[field] = check(arguments[name])
            except ValueError as error:
                raise BadArgumentError(name, str(error)) from None
    if "dead_letter_routing_key" in fields and "dead_letter_exchange" not in fields:
        raise BadArgumentError("x-dead-letter-routing-key", "there is no x-dead-letter-exchange")
    return QueueSettings(**fields)


def first_difference(arguments: Mapping[str, Any], current: Mapping[str, Any]) -> str | None:
    """The first argument of the table that a second declaration gives differently, or None."""
    for name in QUEUE_ARGUMENTS:
        if arguments.get(name) != current.get(name):
            return name
    return None
