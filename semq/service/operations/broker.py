"""Operations ``broker.*`` of ``semq.admin``: queues, consumers, connections, channels, exchanges, bindings.

Rows are sorted by name and returned in pages. ``vhost`` and ``name`` (a prefix of the row's main name) filter,
``limit`` bounds the page, ``next`` of an answer is ``after`` of the next request. A request takes one pass over the
names in the event loop.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from semq.broker.queues.queue import Queue
from semq.broker.server import AmqpServer
from semq.foreign_text import shortened
from semq.service.admin import BadArguments, Handler

PAGE_MAX = 1000
PRODUCT_MAX = 80
INBOX = "semq.inbox"
Key = tuple[str, ...]
Row = dict[str, Any]
Look = Callable[[AmqpServer], Iterator[tuple[Key, Callable[[], Row]]]]


class Serving(Protocol):
    """The node, as these operations use it."""

    server: AmqpServer


def broker_handlers(node: Serving) -> dict[str, Handler]:
    """Operation | handler."""
    return {name: _handler(node, look) for name, look in LOOKS.items()}


def _handler(node: Serving, look: Look) -> Handler:
    async def handle(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return page(look(node.server), arguments)

    return handle


def page(found: Iterable[tuple[Key, Callable[[], Row]]], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return one page; only its rows are built. Raises BadArguments."""
    for name in arguments:
        if name not in ("vhost", "name", "limit", "after"):
            raise BadArguments(f"There is no argument {name}.")
    limit = int(arguments.get("limit", 100))
    if not 1 <= limit <= PAGE_MAX:
        raise BadArguments(f"A page has 1 to {PAGE_MAX} rows.", limit=limit)
    vhost, begins = arguments.get("vhost"), str(arguments.get("name") or "")
    after = tuple(map(str, arguments.get("after") or ()))
    chosen = (
        (key, make)
        for key, make in found
        if key > after and (vhost is None or key[0] == vhost) and key[1].startswith(begins)
    )
    first = heapq.nsmallest(limit + 1, chosen, key=lambda one: one[0])
    rows = [make() for _, make in first[:limit]]
    return {"rows": rows, "next": list(first[limit - 1][0]) if len(first) > limit else None}


def queues(server: AmqpServer) -> Iterator[tuple[Key, Callable[[], Row]]]:
    """List queues; service queues of the node have no message count."""
    taken: dict[tuple[str, str], list[Any]] = {}
    for session, channel in _channels(server):
        for consumer in channel.consumers.values():
            taken.setdefault((session.vhost.name, consumer.source.name), []).append(consumer)
    for vhost in server.vhosts.values():
        for queue in list(vhost.queues.values()):
            key = (vhost.name, queue.name)
            yield key, lambda queue=queue, key=key: _queue(key, queue, taken.get(key, []))  # type: ignore[misc]


def _queue(key: Key, queue: Any, consumers: list[Any]) -> Row:
    row: Row = {"vhost": key[0], "name": key[1], "kind": "service", "consumers": len(consumers)}
    if not isinstance(queue, Queue):
        return row | {"unacked": sum(consumer.unacked for consumer in consumers)}
    return row | {
        "kind": "queue", "durable": queue.durable, "auto_delete": queue.auto_delete,
        "exclusive": queue.owner is not None, "ready": len(queue.ready), "unacked": queue.unacked,
        "arguments": {str(name): shortened(str(value), 200) for name, value in queue.arguments.items()},
    }  # fmt: skip


def consumers(server: AmqpServer) -> Iterator[tuple[Key, Callable[[], Row]]]:
    """Every consumer, by queue."""
    for session, channel in _channels(server):
        for consumer in list(channel.consumers.values()):
            key = (session.vhost.name, consumer.source.name, consumer.tag, str(session.info.peer), str(channel.number))
            yield key, lambda c=consumer, k=key, s=session: _consumer(k, c, s)  # type: ignore[misc]


def _consumer(key: Key, consumer: Any, session: Any) -> Row:
    return {
        "vhost": key[0], "queue": key[1], "tag": key[2], "peer": key[3], "channel": int(key[4]),
        "user": session.info.user, "client": _product(session), "connected_at": _time(session),
        "prefetch": consumer.prefetch, "unacked": consumer.unacked, "acks": not consumer.no_ack,
        "exclusive": consumer.exclusive, "priority": consumer.priority,
    }  # fmt: skip


def workers(server: AmqpServer) -> Iterator[tuple[Key, Callable[[], Row]]]:
    """List the consumers of this institution's inboxes: ``semq worker`` and other applications."""
    return ((key, make) for key, make in consumers(server) if key[1] == INBOX or key[1].startswith(f"{INBOX}."))


def connections(server: AmqpServer) -> Iterator[tuple[Key, Callable[[], Row]]]:
    """Every connection that has been opened."""
    for session in _sessions(server):
        key = (session.vhost.name, session.info.user, str(session.info.peer))
        yield key, lambda k=key, s=session: _connection(k, s)  # type: ignore[misc]


def _connection(key: Key, session: Any) -> Row:
    channels = list(session.channels.values())
    return {
        "vhost": key[0], "user": key[1], "peer": key[2], "client": _product(session), "connected_at": _time(session),
        "tls": session.info.peer.tls, "channels": len(channels), "published": session.published,
        "delivered": session.delivered, "unacked": sum(len(channel.unacked) for channel in channels),
    }  # fmt: skip


def channels(server: AmqpServer) -> Iterator[tuple[Key, Callable[[], Row]]]:
    """Every channel."""
    for session, channel in _channels(server):
        key = (session.vhost.name, session.info.user, str(session.info.peer), f"{channel.number:05}")
        yield key, lambda k=key, c=channel: _channel(k, c)  # type: ignore[misc]


def _channel(key: Key, channel: Any) -> Row:
    mode = "tx" if channel.transaction is not None else "confirm" if channel.confirms is not None else ""
    return {
        "vhost": key[0], "user": key[1], "peer": key[2], "number": channel.number, "mode": mode,
        "prefetch": channel.prefetch, "unacked": len(channel.unacked), "consumers": len(channel.consumers),
    }  # fmt: skip


def exchanges(server: AmqpServer) -> Iterator[tuple[Key, Callable[[], Row]]]:
    """Every exchange."""
    for vhost in server.vhosts.values():
        for exchange in list(vhost.exchanges.values()):
            key = (vhost.name, exchange.name)
            yield key, lambda k=key, e=exchange: _exchange(k, e)  # type: ignore[misc]


def _exchange(key: Key, exchange: Any) -> Row:
    return {
        "vhost": key[0], "name": key[1], "type": exchange.shown_type, "durable": exchange.durable,
        "auto_delete": exchange.auto_delete, "internal": exchange.internal, "bindings": len(exchange.bindings),
    }  # fmt: skip


def bindings(server: AmqpServer) -> Iterator[tuple[Key, Callable[[], Row]]]:
    """Every binding, by its source."""
    for vhost in server.vhosts.values():
        for exchange in list(vhost.exchanges.values()):
            for binding in list(exchange.bindings):
                kind = "queue" if isinstance(binding.destination, Queue) else "exchange"
                key = (vhost.name, exchange.name, binding.destination.name, kind, binding.routing_key)
                yield (*key, binding.arguments.hex()), lambda k=key: dict(zip(BINDING, k, strict=True))  # type: ignore[misc]


BINDING = ("vhost", "source", "destination", "kind", "routing_key")
# Operation | what it lists
LOOKS: dict[str, Look] = {
    "broker.queues": queues,
    "broker.consumers": consumers,
    "broker.connections": connections,
    "broker.channels": channels,
    "broker.exchanges": exchanges,
    "broker.bindings": bindings,
    "worker.list": workers,
}


def _sessions(server: AmqpServer) -> Iterator[Any]:
    return (session for session in list(server.sessions) if session.is_open)


def _channels(server: AmqpServer) -> Iterator[tuple[Any, Any]]:
    return ((session, channel) for session in _sessions(server) for channel in list(session.channels.values()))


def _product(session: Any) -> str:
    told = session.info.client_properties
    name = told.get("connection_name") or " ".join(str(told.get(part, "")) for part in ("product", "version"))
    return str(name).strip()[:PRODUCT_MAX]


def _time(session: Any) -> int:
    return int(session.info.connected_at.timestamp() * 1000)
