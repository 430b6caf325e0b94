"""Routing from an exchange to queues, through exchange-to-exchange bindings and alternate exchanges. Pure."""

from collections.abc import Callable

from semq.broker.routing.exchanges import BindingDestination, Exchange, Headers


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
