"""The methods that define exchanges, queues and bindings, and queue.purge.

Each function checks names, locks and permissions (RabbitMQ's table of required rights), and replies when the store has
saved the change.
"""

from collections.abc import Callable
from typing import Any

from semq.amqp import methods as m
from semq.amqp.errors import AmqpError, NotFound
from semq.broker import refusals
from semq.broker.channel.channel import BrokerChannel
from semq.broker.definitions import AnyQueue
from semq.broker.generated_names import REPLY_PREFIX, REPLY_TO, generated_name
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import Exchange
from semq.broker.services import ServiceQueue
from semq.broker.users import Right


def named_queue(channel: BrokerChannel, name: str) -> str:
    """Return ``name``, or if it is empty the name of the queue declared last on this channel (AMQP 0-9-1, class queue).
    Raises NotFound if no queue was declared on it.
    """
    if name:
        return name
    if not channel.last_queue:
        raise refusals.no_last_queue()
    return channel.last_queue


def queue_for(channel: BrokerChannel, name: str) -> AnyQueue:
    """Return the queue of ``named_queue``. Raises NotFound, or ResourceLocked if another connection owns it."""
    return channel.session.vhost.find_queue(named_queue(channel, name), channel.session)


def exchange_declare(channel: BrokerChannel, request: m.ExchangeDeclare) -> None:
    """exchange.declare: create an exchange, or check an existing one."""
    session, name = channel.session, request.exchange
    if not name:
        raise refusals.default_exchange()
    must_wait = False
    if request.passive:
        session.vhost.find_exchange(name)
    else:
        session.require(Right.CONFIGURE, "exchange", name)
        alternate = request.arguments.get("alternate-exchange")
        if isinstance(alternate, str) and name not in session.vhost.exchanges:
            session.require(Right.READ, "exchange", name)
            session.require(Right.WRITE, "exchange", alternate)
        must_wait = session.vhost.declare_exchange(
            name, request.type, request.durable, request.auto_delete, request.internal, request.arguments
        )
    channel.reply_when_saved(m.ExchangeDeclareOk(), request.no_wait, must_wait)


def exchange_delete(channel: BrokerChannel, request: m.ExchangeDelete) -> None:
    """exchange.delete; a missing exchange is not an error."""
    session = channel.session
    if not request.exchange:
        raise refusals.default_exchange()
    session.require(Right.CONFIGURE, "exchange", request.exchange)
    must_wait = session.vhost.delete_exchange(request.exchange, request.if_unused)
    channel.reply_when_saved(m.ExchangeDeleteOk(), request.no_wait, must_wait)


def exchange_bind(channel: BrokerChannel, request: m.ExchangeBind) -> None:
    """exchange.bind (RabbitMQ): requires the rights to write to the destination and to read from the source."""
    source, destination = _exchange_ends(channel, request)
    must_wait = channel.session.vhost.bind(source, destination, request.routing_key, request.arguments)
    channel.reply_when_saved(m.ExchangeBindOk(), request.no_wait, must_wait)


def exchange_unbind(channel: BrokerChannel, request: m.ExchangeUnbind) -> None:
    """exchange.unbind: remove a binding; it is not an error if the binding or one of its ends is missing."""
    try:
        source, destination = _exchange_ends(channel, request)
    except NotFound:
        must_wait = False
    else:
        must_wait = channel.session.vhost.unbind(source, destination, request.routing_key, request.arguments)
    channel.reply_when_saved(m.ExchangeUnbindOk(), request.no_wait, must_wait)


def _exchange_ends(channel: BrokerChannel, request: "m.ExchangeBind | m.ExchangeUnbind") -> tuple[Exchange, Exchange]:
    session = channel.session
    if not (request.source and request.destination):
        raise refusals.default_exchange()
    session.require(Right.WRITE, "exchange", request.destination)
    session.require(Right.READ, "exchange", request.source)
    return session.vhost.find_exchange(request.source), session.vhost.find_exchange(request.destination)


def queue_declare(channel: BrokerChannel, request: m.QueueDeclare) -> None:
    """queue.declare: create a queue, with a name from the server if none is given, or check an existing one."""
    session, name = channel.session, request.queue
    if name == REPLY_TO or name.startswith(REPLY_PREFIX):
        _declare_reply_queue(channel, request)
        return
    if request.passive:
        queue, must_wait = session.vhost.find_queue(name, session), False
        if isinstance(queue, ServiceQueue):
            # Only users who may read the messages get their number.
            session.require(Right.READ, "queue", name)
    else:
        name = name or generated_name("amq.gen-", session.clock)
        session.require(Right.CONFIGURE, "queue", name)
        if name not in session.vhost.queues:
            _require_dead_letter_rights(channel, name, request)
        owner = session if request.exclusive else None
        queue, must_wait = session.vhost.declare_queue(
            name, request.durable, request.auto_delete, owner, request.arguments, session
        )
        if isinstance(queue, Queue) and owner is not None:
            session.exclusive_queues[queue] = None
    channel.last_queue = queue.name
    if isinstance(queue, Queue):
        reply = m.QueueDeclareOk(queue.name, len(queue.ready), len(queue.consumers))
        channel.reply_when_saved(reply, request.no_wait, must_wait)
    else:
        _reply_with_service_counts(channel, queue, request.no_wait, must_wait)


def _require_dead_letter_rights(channel: BrokerChannel, name: str, request: m.QueueDeclare) -> None:
    target = request.arguments.get("x-dead-letter-exchange")
    if isinstance(target, str):
        channel.session.require(Right.READ, "queue", name)
        channel.session.require(Right.WRITE, "exchange", target)


def _declare_reply_queue(channel: BrokerChannel, request: m.QueueDeclare) -> None:
    """Check for a client whether the channel that waits for its direct reply still exists. Raises NotFound."""
    target = channel.session.find_reply_target(request.queue)
    if request.queue != REPLY_TO and target is None:
        raise refusals.no_queue(request.queue, channel.session.vhost.name)
    channel.last_queue = request.queue
    channel.reply(m.QueueDeclareOk(request.queue, 0, 1), request.no_wait)


def _reply_with_service_counts(channel: BrokerChannel, queue: ServiceQueue, no_wait: bool, must_wait: bool) -> None:
    """Reply when the service has counted, and the store has saved a change. Until then the channel waits."""

    def answer(messages: int, consumers: int) -> None:
        if not channel.is_open:
            return
        channel.reply_when_saved(m.QueueDeclareOk(queue.name, messages, consumers), no_wait, must_wait)
        channel.release()

    channel.hold()
    if no_wait:
        answer(0, 0)
    else:
        queue.counts(answer)


def queue_bind(channel: BrokerChannel, request: m.QueueBind) -> None:
    """queue.bind: requires the rights to write to the queue and to read from the exchange."""
    exchange, queue, key = _queue_ends(channel, request)
    must_wait = channel.session.vhost.bind(exchange, queue, key, request.arguments)
    channel.reply_when_saved(m.QueueBindOk(), request.no_wait, must_wait)


def queue_unbind(channel: BrokerChannel, request: m.QueueUnbind) -> None:
    """queue.unbind: remove a binding; it is not an error if the binding or one of its ends is missing."""
    try:
        exchange, queue, key = _queue_ends(channel, request)
    except NotFound:
        if not (request.queue or channel.last_queue):
            raise
        must_wait = False
    else:
        must_wait = channel.session.vhost.unbind(exchange, queue, key, request.arguments)
    channel.reply_when_saved(m.QueueUnbindOk(), False, must_wait)


def _queue_ends(channel: BrokerChannel, request: "m.QueueBind | m.QueueUnbind") -> tuple[Exchange, AnyQueue, str]:
    session = channel.session
    name = named_queue(channel, request.queue)
    # If queue and key are both omitted, the key is the name of the queue declared last.
    key = name if not (request.queue or request.routing_key) else request.routing_key
    session.require(Right.WRITE, "queue", name)
    session.require(Right.READ, "exchange", request.exchange)
    if not request.exchange:
        raise refusals.default_exchange()
    # The exchange first, as in RabbitMQ: if both are missing, the error names the exchange.
    exchange = session.vhost.find_exchange(request.exchange)
    return exchange, session.vhost.find_queue(name, session), key


def queue_purge(channel: BrokerChannel, request: m.QueuePurge) -> None:
    """queue.purge: delete the waiting messages; unacknowledged ones stay outstanding."""
    session = channel.session
    session.require(Right.READ, "queue", named_queue(channel, request.queue))
    queue = queue_for(channel, request.queue)
    if isinstance(queue, ServiceQueue):
        raise refusals.belongs_to_node("queue", queue.name, session.vhost.name, "it cannot be purged")
    count = len(queue.ready)

    def reply() -> None:
        channel.reply_when_saved(m.QueuePurgeOk(count), request.no_wait, queue.durable and count > 0)
        channel.release()

    channel.hold()
    queue.purge(reply)


def queue_delete(channel: BrokerChannel, request: m.QueueDelete) -> None:
    """queue.delete; a missing queue is not an error, as in RabbitMQ."""
    session = channel.session
    name = named_queue(channel, request.queue)
    session.require(Right.CONFIGURE, "queue", name)
    if name not in session.vhost.queues:
        channel.reply(m.QueueDeleteOk(0), request.no_wait)
        return
    queue = session.vhost.find_queue(name, session)
    session.delay_notices()
    try:
        count, must_wait = session.vhost.delete_queue(queue, request.if_unused, request.if_empty)
    except AmqpError:
        session.send_notices()
        raise
    channel.reply_when_saved(m.QueueDeleteOk(count), request.no_wait, must_wait, session.send_notices)


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
