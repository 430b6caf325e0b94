"""Operations ``broker.*`` and ``worker.list`` of ``semq.admin``: queues, consumers, connections, channels, exchanges,
bindings.

Rows are sorted by virtual host and main name (of the queue, user, exchange or source). ``next`` of an answer is the
argument ``after`` for the following page. A request makes one pass over all names; only the rows of the page are built.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Annotated, Generic, TypeVar

from msgspec import UNSET, Meta, UnsetType

from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.broker.channel.channel import BrokerChannel
from semq.broker.channel.ports import ChannelConsumer
from semq.broker.definitions import AnyQueue
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import Exchange
from semq.broker.server import AmqpServer
from semq.broker.session import BrokerSession
from semq.errors import Unavailable
from semq.foreign_text import shortened
from semq.service.access import APPLICATIONS, INBOX, is_inbox
from semq.service.operations.arguments import Arguments, Limit, Text
from semq.service.operations.operation import Caller, look
from semq.service.operations.ports import OperatedNode

CLIENT_NAME_MAX = 80  # characters
Key = tuple[str, ...]  # the sort key of a row: virtual host, main name, and more
Row = TypeVar("Row", bound=OperationAnswer)
Entry = tuple[Key, Callable[[], Row]]  # a key, and the function that builds its row


class BrokerPage(Arguments, frozen=True, kw_only=True):
    """The selection of rows, and of a page."""

    vhost: Annotated[Text | None, Meta(description="Only this virtual host.")] = None
    name: Annotated[Text, Meta(description="Beginning of the name (queue, user, exchange, source).")] = ""
    limit: Limit = 100
    after: Annotated[
        tuple[Annotated[str, Meta(max_length=2000)], ...],
        Meta(max_length=10, description="``next`` of the page before."),
    ] = ()


class Page(OperationAnswer, Generic[Row], frozen=True, kw_only=True):
    """A page of a list."""

    rows: list[Row]
    next: Key | None  #: argument ``after`` of the following page; null on the last page


class QueueRow(OperationAnswer, frozen=True, kw_only=True):
    """A queue of applications, or one that the node itself serves (``kind`` service), with fewer facts."""

    vhost: str
    name: str
    kind: str  #: queue or service
    consumers: int
    unacked: int
    ready: int | UnsetType = UNSET  #: messages; documents of an inbox as of the last census
    durable: bool | UnsetType = UNSET
    auto_delete: bool | UnsetType = UNSET
    exclusive: bool | UnsetType = UNSET
    arguments: dict[str, str] | UnsetType = UNSET


class ConsumerRow(OperationAnswer, frozen=True, kw_only=True):
    """A consumer."""

    vhost: str
    queue: str
    tag: str
    peer: str
    channel: int
    user: str
    client: str
    connected_at: int  #: milliseconds since 1970 UTC
    prefetch: int
    unacked: int
    acks: bool
    exclusive: bool
    priority: int


class ConnectionRow(OperationAnswer, frozen=True, kw_only=True):
    """An open connection."""

    vhost: str
    user: str
    peer: str
    client: str
    connected_at: int  #: milliseconds since 1970 UTC
    tls: str | None  #: version of TLS; null without TLS
    channels: int
    published: int
    delivered: int
    unacked: int


class ChannelRow(OperationAnswer, frozen=True, kw_only=True):
    """A channel."""

    vhost: str
    user: str
    peer: str
    number: int
    mode: str  #: tx, confirm, or empty
    prefetch: int
    unacked: int
    consumers: int


class ExchangeRow(OperationAnswer, frozen=True, kw_only=True):
    """An exchange."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    bindings: int


class BindingRow(OperationAnswer, frozen=True, kw_only=True):
    """A binding."""

    vhost: str
    source: str
    destination: str
    kind: str  #: of the destination: queue or exchange
    routing_key: str


class BrokerOperations:
    """The handlers of ``broker.*`` and ``worker.list``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def queues(self, arguments: BrokerPage) -> Page[QueueRow]:
        """List queues with their messages and consumers; the documents in inboxes are those of the last census."""
        documents = await self._unacknowledged_documents() if _may_have_inboxes(arguments) else None
        return page(queues(self._node.server, documents), arguments)

    async def _unacknowledged_documents(self) -> dict[str, int] | None:
        """Return the numbers of documents by inbox; None if they are not known. Also find the inboxes that have
        documents and were not used since the start.
        """
        inboxes = self._node.server.vhosts[APPLICATIONS].queues
        if INBOX not in inboxes:  # a hub
            return None
        try:
            census = await self._node.operations["queue.census"]({}, Caller("broker", "broker.queues"))
        except Unavailable:
            return None
        rows = {inbox["inbox"]: inbox["rows"] for inbox in census["inboxes"]}
        used = [name for name in inboxes if is_inbox(name)] + [name for name in rows if name in inboxes]
        return {name: rows.get(name, 0) for name in used} if census["as_of"] else None

    async def consumers(self, arguments: BrokerPage) -> Page[ConsumerRow]:
        """List consumers, sorted by queue."""
        return page(consumers(self._node.server), arguments)

    async def connections(self, arguments: BrokerPage) -> Page[ConnectionRow]:
        """List open connections, sorted by user."""
        return page(connections(self._node.server), arguments)

    async def channels(self, arguments: BrokerPage) -> Page[ChannelRow]:
        """List channels, sorted by user."""
        return page(channels(self._node.server), arguments)

    async def exchanges(self, arguments: BrokerPage) -> Page[ExchangeRow]:
        """List exchanges; the node itself processes what is published to an exchange of a type x-…."""
        return page(exchanges(self._node.server), arguments)

    async def bindings(self, arguments: BrokerPage) -> Page[BindingRow]:
        """List bindings, sorted by source."""
        return page(bindings(self._node.server), arguments)

    async def workers(self, arguments: BrokerPage) -> Page[ConsumerRow]:
        """List the consumers of this institution's inboxes: workers and other applications."""
        return page(inbox_consumers(self._node.server), arguments)


def _may_have_inboxes(wanted: BrokerPage) -> bool:
    return wanted.vhost in (None, APPLICATIONS) and (INBOX.startswith(wanted.name) or is_inbox(wanted.name))


def page(entries: Iterable[Entry[Row]], wanted: BrokerPage) -> Page[Row]:
    """Return the page of matching entries after ``wanted.after``; ``next`` is None on the last page."""
    matching = (
        (key, build)
        for key, build in entries
        if key > wanted.after and (wanted.vhost is None or key[0] == wanted.vhost) and key[1].startswith(wanted.name)
    )
    first = heapq.nsmallest(wanted.limit + 1, matching, key=lambda entry: entry[0])
    rows = [build() for _, build in first[: wanted.limit]]
    return Page(rows=rows, next=first[wanted.limit - 1][0] if len(first) > wanted.limit else None)


def queues(server: AmqpServer, documents: Mapping[str, int] | None = None) -> Iterator[Entry[QueueRow]]:
    """Yield the queues. ``documents``: numbers of unacknowledged documents by inbox; other service queues have none."""
    consumers_of: dict[Key, list[ChannelConsumer]] = {}
    for session, channel in _channels(server):
        for consumer in channel.consumers.values():
            consumers_of.setdefault((session.vhost.name, consumer.source.name), []).append(consumer)
    for vhost in server.vhosts.values():
        for queue in [*vhost.queues.values(), *vhost.delays.values()]:
            key = (vhost.name, queue.name)
            count = (documents or {}).get(queue.name) if vhost.name == APPLICATIONS else None
            yield key, partial(_queue, key, queue, consumers_of.get(key, []), count)


def _queue(key: Key, queue: AnyQueue, consumers: list[ChannelConsumer], documents: int | None) -> QueueRow:
    if not isinstance(queue, Queue):
        unacked = sum(consumer.unacked for consumer in consumers)
        ready = UNSET if documents is None else max(documents - unacked, 0)
        return QueueRow(
            vhost=key[0], name=key[1], kind="service", consumers=len(consumers), unacked=unacked, ready=ready
        )
    return QueueRow(
        vhost=key[0], name=key[1], kind="queue", consumers=len(consumers), unacked=queue.unacked,
        ready=len(queue.ready), durable=queue.durable, auto_delete=queue.auto_delete,
        exclusive=queue.owner is not None,
        arguments={str(name): shortened(str(value), 200) for name, value in queue.arguments.items()},
    )  # fmt: skip


def consumers(server: AmqpServer) -> Iterator[Entry[ConsumerRow]]:
    """Yield the consumers."""
    for session, channel in _channels(server):
        for consumer in list(channel.consumers.values()):
            key = (session.vhost.name, consumer.source.name, consumer.tag, str(session.info.peer), str(channel.number))
            yield key, partial(_consumer, key, consumer, session)


def _consumer(key: Key, consumer: ChannelConsumer, session: BrokerSession) -> ConsumerRow:
    return ConsumerRow(
        vhost=key[0], queue=key[1], tag=key[2], peer=key[3], channel=int(key[4]), user=session.info.user,
        client=_client_name(session), connected_at=_connected_at(session), prefetch=consumer.prefetch,
        unacked=consumer.unacked, acks=not consumer.no_ack, exclusive=consumer.exclusive, priority=consumer.priority,
    )  # fmt: skip


def inbox_consumers(server: AmqpServer) -> Iterator[Entry[ConsumerRow]]:
    """Yield the consumers of this institution's inboxes."""
    return ((key, build) for key, build in consumers(server) if is_inbox(key[1]))


def connections(server: AmqpServer) -> Iterator[Entry[ConnectionRow]]:
    """Yield the open connections."""
    for session in _sessions(server):
        key = (session.vhost.name, session.info.user, str(session.info.peer))
        yield key, partial(_connection, key, session)


def _connection(key: Key, session: BrokerSession) -> ConnectionRow:
    channels = list(session.channels.values())
    return ConnectionRow(
        vhost=key[0], user=key[1], peer=key[2], client=_client_name(session), connected_at=_connected_at(session),
        tls=session.info.peer.tls, channels=len(channels), published=session.published, delivered=session.delivered,
        unacked=sum(len(channel.unacked) for channel in channels),
    )  # fmt: skip


def channels(server: AmqpServer) -> Iterator[Entry[ChannelRow]]:
    """Yield the channels."""
    for session, channel in _channels(server):
        key = (session.vhost.name, session.info.user, str(session.info.peer), f"{channel.number:05}")
        yield key, partial(_channel, key, channel)


def _channel(key: Key, channel: BrokerChannel) -> ChannelRow:
    return ChannelRow(
        vhost=key[0], user=key[1], peer=key[2], number=channel.number,
        mode="tx" if channel.transaction is not None else "confirm" if channel.confirms is not None else "",
        prefetch=channel.prefetch, unacked=len(channel.unacked), consumers=len(channel.consumers),
    )  # fmt: skip


def exchanges(server: AmqpServer) -> Iterator[Entry[ExchangeRow]]:
    """Yield the exchanges."""
    for vhost in server.vhosts.values():
        for exchange in list(vhost.exchanges.values()):
            key = (vhost.name, exchange.name)
            yield key, partial(_exchange, key, exchange)


def _exchange(key: Key, exchange: Exchange) -> ExchangeRow:
    return ExchangeRow(
        vhost=key[0], name=key[1], type=exchange.shown_type, durable=exchange.durable,
        auto_delete=exchange.auto_delete, internal=exchange.internal, bindings=len(exchange.bindings),
    )  # fmt: skip


def bindings(server: AmqpServer) -> Iterator[Entry[BindingRow]]:
    """Yield the bindings."""
    for vhost in server.vhosts.values():
        for exchange in list(vhost.exchanges.values()):
            for binding in list(exchange.bindings):
                kind = "queue" if isinstance(binding.destination, Queue) else "exchange"
                key = (vhost.name, exchange.name, binding.destination.name, kind, binding.routing_key)
                # Two bindings may differ only in their arguments.
                yield (*key, binding.arguments.hex()), partial(_binding, key)


def _binding(key: tuple[str, str, str, str, str]) -> BindingRow:
    vhost, source, destination, kind, routing_key = key
    return BindingRow(vhost=vhost, source=source, destination=destination, kind=kind, routing_key=routing_key)


BROKER = tuple(
    look(name, AccessRole.VIEWER, BrokerPage, handler)
    for name, handler in (
        ("broker.queues", BrokerOperations.queues),
        ("broker.consumers", BrokerOperations.consumers),
        ("broker.connections", BrokerOperations.connections),
        ("broker.channels", BrokerOperations.channels),
        ("broker.exchanges", BrokerOperations.exchanges),
        ("broker.bindings", BrokerOperations.bindings),
        ("worker.list", BrokerOperations.workers),
    )
)


def _sessions(server: AmqpServer) -> Iterator[BrokerSession]:
    return (session for session in list(server.sessions) if session.is_open)


def _channels(server: AmqpServer) -> Iterator[tuple[BrokerSession, BrokerChannel]]:
    return ((session, channel) for session in _sessions(server) for channel in list(session.channels.values()))


def _client_name(session: BrokerSession) -> str:
    properties = session.info.client_properties
    name = properties.get("connection_name")
    if not name:
        name = " ".join(str(properties.get(part, "")) for part in ("product", "version"))
    return str(name).strip()[:CLIENT_NAME_MAX]


def _connected_at(session: BrokerSession) -> int:
    return int(session.info.connected_at.timestamp() * 1000)
