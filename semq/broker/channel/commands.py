"""The methods that define exchanges, queues and bindings. One function per method, from the request to the reply.

Each checks names, locks and permissions (RabbitMQ's table of required rights), calls ``vhost``, and replies when the
store has saved the change. ``DEFINITIONS`` maps methods to functions for ``session``. Consumers and messages are in
``consumption``.
"""

from collections.abc import Callable
from typing import Any

from semq.amqp import methods as m
from semq.amqp.errors import AmqpError, NotFound
from semq.broker import refusals
from semq.broker.channel.channel import BrokerChannel
from semq.broker.channel.publication import REPLY_PREFIX, REPLY_TO
from semq.broker.definitions import AnyQueue
from semq.broker.generated_names import generated_name
from semq.broker.queues.queue import Queue
from semq.broker.services import ServiceQueue
from semq.broker.users import Right


def named_queue(channel: BrokerChannel, name: str) -> str:
    """Return the queue name, or for an empty name the queue declared last on this channel (AMQP 0-9-1, class queue)."""
    if name:
        return name
    if not channel.last_queue:
        raise refusals.no_last_queue()
    return channel.last_queue


def queue_for(channel: BrokerChannel, name: str) -> AnyQueue:
    """Return a queue by name, if this connection may use it."""
    return channel.session.vhost.find_queue(named_queue(channel, name), channel.session)


def exchange_declare(channel: BrokerChannel, ask: m.ExchangeDeclare) -> None:
    """exchange.declare: create an exchange, or check that it exists."""
    session, name = channel.session, ask.exchange
    if not name:
        raise refusals.default_exchange()
    must_wait = False
    if ask.passive:
        session.vhost.find_exchange(name)
    else:
        session.require(Right.CONFIGURE, "exchange", name)
        alternate = ask.arguments.get("alternate-exchange")
        if isinstance(alternate, str) and name not in session.vhost.exchanges:
            session.require(Right.READ, "exchange", name)
            session.require(Right.WRITE, "exchange", alternate)
        must_wait = session.vhost.declare_exchange(
            name, ask.type, ask.durable, ask.auto_delete, ask.internal, ask.arguments
        )
    channel.reply_when_saved(m.ExchangeDeclareOk(), ask.no_wait, must_wait)


def exchange_delete(channel: BrokerChannel, ask: m.ExchangeDelete) -> None:
    """exchange.delete: delete an exchange; a missing one is not an error."""
    session = channel.session
    if not ask.exchange:
        raise refusals.default_exchange()
    session.require(Right.CONFIGURE, "exchange", ask.exchange)
    must_wait = session.vhost.delete_exchange(ask.exchange, ask.if_unused)
    channel.reply_when_saved(m.ExchangeDeleteOk(), ask.no_wait, must_wait)


def exchange_bind(channel: BrokerChannel, ask: m.ExchangeBind) -> None:
    """exchange.bind (RabbitMQ): requires write on the destination and read on the source."""
    source, destination = _exchange_ends(channel, ask)
    must_wait = channel.session.vhost.bind(source, destination, ask.routing_key, ask.arguments)
    channel.reply_when_saved(m.ExchangeBindOk(), ask.no_wait, must_wait)


def exchange_unbind(channel: BrokerChannel, ask: m.ExchangeUnbind) -> None:
    """exchange.unbind: remove a binding; it is not an error if the binding or one of its ends is missing."""
    try:
        source, destination = _exchange_ends(channel, ask)
    except NotFound:
        must_wait = False
    else:
        must_wait = channel.session.vhost.unbind(source, destination, ask.routing_key, ask.arguments)
    channel.reply_when_saved(m.ExchangeUnbindOk(), ask.no_wait, must_wait)


def _exchange_ends(channel: BrokerChannel, ask: "m.ExchangeBind | m.ExchangeUnbind") -> tuple[Any, Any]:
    session = channel.session
    if not (ask.source and ask.destination):
        raise refusals.default_exchange()
    session.require(Right.WRITE, "exchange", ask.destination)
    session.require(Right.READ, "exchange", ask.source)
    return session.vhost.find_exchange(ask.source), session.vhost.find_exchange(ask.destination)


def queue_declare(channel: BrokerChannel, ask: m.QueueDeclare) -> None:
    """queue.declare: create a queue, with a name from the server if none is given, or check an existing one."""
    session, name = channel.session, ask.queue
    if name == REPLY_TO or name.startswith(REPLY_PREFIX):
        _declare_reply_queue(channel, ask)
        return
    if ask.passive:
        queue, must_wait = session.vhost.find_queue(name, session), False
        if isinstance(queue, ServiceQueue):
            # the number of messages is visible only to users who may read them
            session.require(Right.READ, "queue", name)
    else:
        name = name or generated_name("amq.gen-", session.clock)
        session.require(Right.CONFIGURE, "queue", name)
        if name not in session.vhost.queues:
            _require_dead_letter_rights(channel, name, ask)
        owner = session if ask.exclusive else None
        queue, must_wait = session.vhost.declare_queue(
            name, ask.durable, ask.auto_delete, owner, ask.arguments, session
        )
        if isinstance(queue, Queue) and owner is not None:
            session.exclusive_queues[queue] = None
    channel.last_queue = queue.name
    if isinstance(queue, Queue):
        answer = m.QueueDeclareOk(queue.name, len(queue.ready), len(queue.consumers))
        channel.reply_when_saved(answer, ask.no_wait, must_wait)
    elif not ask.no_wait:
        _count_service(channel, queue)


def _require_dead_letter_rights(channel: BrokerChannel, name: str, ask: m.QueueDeclare) -> None:
    target = ask.arguments.get("x-dead-letter-exchange")
    if isinstance(target, str):
        channel.session.require(Right.READ, "queue", name)
        channel.session.require(Right.WRITE, "exchange", target)


def _declare_reply_queue(channel: BrokerChannel, ask: m.QueueDeclare) -> None:
    """Check whether the client that waits for a direct reply still exists."""
    target = channel.session.find_reply_target(ask.queue)
    if ask.queue != REPLY_TO and target is None:
        raise refusals.no_queue(ask.queue, channel.session.vhost.name)
    channel.last_queue = ask.queue
    channel.reply(m.QueueDeclareOk(ask.queue, 0, 1), ask.no_wait)


def _count_service(channel: BrokerChannel, queue: ServiceQueue) -> None:
    """Reply when the service has counted its messages; until then the channel waits."""

    def counted(messages: int, consumers: int) -> None:
        if channel.is_open:
            channel.send(m.QueueDeclareOk(queue.name, messages, consumers))
            channel.release()

    channel.hold()
    queue.counts(counted)


def queue_bind(channel: BrokerChannel, ask: m.QueueBind) -> None:
    """queue.bind: requires write on the queue and read on the exchange."""
    exchange, queue, key = _queue_ends(channel, ask)
    must_wait = channel.session.vhost.bind(exchange, queue, key, ask.arguments)
    channel.reply_when_saved(m.QueueBindOk(), ask.no_wait, must_wait)


def queue_unbind(channel: BrokerChannel, ask: m.QueueUnbind) -> None:
    """queue.unbind: remove a binding; it is not an error if the binding or one of its ends is missing."""
    try:
        exchange, queue, key = _queue_ends(channel, ask)
    except NotFound:
        if not (ask.queue or channel.last_queue):
            raise
        must_wait = False
    else:
        must_wait = channel.session.vhost.unbind(exchange, queue, key, ask.arguments)
    channel.reply_when_saved(m.QueueUnbindOk(), False, must_wait)


def _queue_ends(channel: BrokerChannel, ask: "m.QueueBind | m.QueueUnbind") -> tuple[Any, AnyQueue, str]:
    session = channel.session
    name = named_queue(channel, ask.queue)
    # If queue and key are both omitted, the key is the name of the queue declared last.
    key = name if not (ask.queue or ask.routing_key) else ask.routing_key
    session.require(Right.WRITE, "queue", name)
    session.require(Right.READ, "exchange", ask.exchange)
    if not ask.exchange:
        raise refusals.default_exchange()
    # first, as in RabbitMQ: if both are missing, the error names the exchange
    exchange = session.vhost.find_exchange(ask.exchange)
    return exchange, session.vhost.find_queue(name, session), key


def queue_purge(channel: BrokerChannel, ask: m.QueuePurge) -> None:
    """queue.purge: delete the waiting messages; unacknowledged ones stay outstanding."""
    session = channel.session
    session.require(Right.READ, "queue", named_queue(channel, ask.queue))
    queue = queue_for(channel, ask.queue)
    if isinstance(queue, ServiceQueue):
        raise refusals.service("queue", queue.name, session.vhost.name, "it cannot be purged")
    waited = len(queue.ready)

    def purged() -> None:
        channel.reply_when_saved(m.QueuePurgeOk(waited), ask.no_wait, queue.durable and waited > 0)
        channel.release()

    channel.hold()
    queue.purge(purged)


def queue_delete(channel: BrokerChannel, ask: m.QueueDelete) -> None:
    """queue.delete: delete a queue, optionally only if unused or empty."""
    session = channel.session
    name = named_queue(channel, ask.queue)
    session.require(Right.CONFIGURE, "queue", name)
    if name not in session.vhost.queues:
        channel.reply(m.QueueDeleteOk(0), ask.no_wait)  # as in RabbitMQ, deleting a missing queue is not an error
        return
    queue = session.vhost.find_queue(name, session)
    session.delay_notices()
    try:
        count, must_wait = session.vhost.delete_queue(queue, ask.if_unused, ask.if_empty)
    except AmqpError:
        session.send_notices()
        raise
    channel.reply_when_saved(m.QueueDeleteOk(count), ask.no_wait, must_wait, session.send_notices)


DEFINITIONS: dict[type[m.Method], Callable[[BrokerChannel, Any], None]] = {
    m.ExchangeDeclare: exchange_declare,
    m.ExchangeDelete: exchange_delete,
    m.ExchangeBind: exchange_bind,
    m.ExchangeUnbind: exchange_unbind,
    m.QueueDeclare: queue_declare,
    m.QueueBind: queue_bind,
    m.QueueUnbind: queue_unbind,
    m.QueuePurge: queue_purge,
    m.QueueDelete: queue_delete,
}
