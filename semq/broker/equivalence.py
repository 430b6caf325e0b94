"""Declarations of exchanges and queues that exist, which they must match (AMQP 0-9-1, exchange and queue.declare).

``definitions`` calls these functions, which raise the AmqpErrors of ``refusals``.
"""

from collections.abc import Mapping

from semq.broker import refusals
from semq.broker.arguments import first_difference
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import Exchange
from semq.broker.services import ServiceQueue


def check_exchange(
    vhost: str,
    existing: Exchange,
    kind: str,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Mapping[str, object],
) -> None:
    """Raise PreconditionFailed if an exchange is declared with another property or compared argument."""
    for name, received, current in (
        ("type", kind, existing.shown_type),
        ("durable", durable, existing.durable),
        ("auto_delete", auto_delete, existing.auto_delete),
        ("internal", internal, existing.internal),
    ):
        if received != current:
            raise refusals.inequivalent(name, "exchange", existing.name, vhost, received, current)
    for name in existing.compared:
        given, ours = arguments.get(name), existing.arguments.get(name)
        if given != ours:
            raise refusals.inequivalent_argument(name, "exchange", existing.name, vhost, given, ours)


def check_flags(
    vhost: str, existing: Queue | ServiceQueue, durable: bool, auto_delete: bool, is_durable: bool, is_auto_delete: bool
) -> None:
    """Raise PreconditionFailed if a queue is declared with another flag than it has."""
    for name, received, current in (
        ("durable", durable, is_durable),
        ("auto_delete", auto_delete, is_auto_delete),
    ):
        if received != current:
            raise refusals.inequivalent(name, "queue", existing.name, vhost, received, current)


def check_queue(
    vhost: str, existing: Queue, durable: bool, auto_delete: bool, owner: object, arguments: Mapping[str, object]
) -> None:
    """Raise PreconditionFailed, or ResourceLocked, if a queue is declared with another property or argument."""
    if (owner is None) != (existing.owner is None):
        raise refusals.locked(existing.name, vhost)
    check_flags(vhost, existing, durable, auto_delete, existing.durable, existing.auto_delete)
    argument = first_difference(arguments, existing.arguments)
    if argument is not None:
        raise refusals.inequivalent_argument(
            argument, "queue", existing.name, vhost, arguments.get(argument), existing.arguments.get(argument)
        )
