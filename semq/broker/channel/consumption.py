"""The methods about consuming messages (qos, consume, cancel, get, recover), and confirm.select and tx."""

from collections.abc import Callable
from typing import Any

from semq.amqp import methods as m
from semq.amqp.content import ContentHeader
from semq.amqp.wire import encode_table
from semq.broker import refusals
from semq.broker.arguments import QueueSettings
from semq.broker.channel.channel import BrokerChannel
from semq.broker.channel.commands import named_queue, queue_for
from semq.broker.channel.commit import CommitInProgress
from semq.broker.channel.confirms import Confirms
from semq.broker.channel.consumer import Consumer, redelivery_header, watch_timeout
from semq.broker.channel.transaction import Commit, Transaction
from semq.broker.definitions import AnyQueue
from semq.broker.generated_names import REPLY_TO, generated_name
from semq.broker.queues.queue import Disposition, Queue
from semq.broker.services import ServiceDelivery, ServiceQueue
from semq.broker.users import Right


def basic_qos(channel: BrokerChannel, request: m.BasicQos) -> None:
    """basic.qos: limit the unacknowledged deliveries of the channel (global), or of each consumer started after it."""
    if request.prefetch_size:
        raise refusals.not_implemented(f"prefetch_size!=0 ({request.prefetch_size})")
    channel.send(m.BasicQosOk())
    if request.global_:
        channel.prefetch_global = request.prefetch_count
        channel.resume(channel.consumers.values())
    else:
        channel.prefetch = request.prefetch_count  # for consumers started from now on, as in RabbitMQ


def basic_consume(channel: BrokerChannel, request: m.BasicConsume) -> None:
    """basic.consume: start a consumer; deliveries follow consume-ok."""
    session = channel.session
    if request.consumer_tag in channel.consumers:
        raise refusals.reused_consumer_tag(request.consumer_tag)
    if len(encode_table(request.arguments)) > session.limits.consumer_arguments_bytes:
        raise refusals.bad_request("the arguments of the consumer are too large")
    if len(channel.consumers) >= session.limits.consumers_per_channel:
        raise refusals.too_many("consumer", session.limits.consumers_per_channel)
    tag = request.consumer_tag or generated_name("amq.ctag-", session.clock)
    if request.queue == REPLY_TO:
        _consume_replies(channel, request, tag)
        return
    name = named_queue(channel, request.queue)
    session.require(Right.READ, "queue", name)
    source = queue_for(channel, name)
    _check_free(channel, source, request.exclusive)
    consumer = Consumer(channel, source, tag, request.no_ack, request.exclusive, _priority(request), request.arguments)
    channel.consumers[tag] = consumer
    session.add_consumer(consumer)
    channel.reply(m.BasicConsumeOk(tag), request.no_wait)  # before the first delivery (AMQP 0-9-1, 4.6)
    if isinstance(source, ServiceQueue):
        source.attach(consumer)
    else:
        if not request.no_ack:
            watch_timeout(channel, source)
        source.subscribe(consumer, request.exclusive)
        source.pump()


def _check_free(channel: BrokerChannel, source: AnyQueue, exclusive: bool) -> None:
    if isinstance(source, ServiceQueue):
        refusal = source.may_attach(channel.session.info, exclusive)
        if refusal is not None:
            raise refusal
    elif source.exclusive_consumer is not None or (exclusive and len(source.consumers)):
        raise refusals.exclusive_use(source.name, channel.session.vhost.name)


def _priority(request: m.BasicConsume) -> int:
    priority = request.arguments.get("x-priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise refusals.bad_request(f"invalid arg 'x-priority': expected an integer, received {priority!r}")
    return priority


def _consume_replies(channel: BrokerChannel, request: m.BasicConsume, tag: str) -> None:
    """Start the consumer of RabbitMQ's direct reply-to: replies are sent to this channel without a queue."""
    if not request.no_ack:
        raise refusals.bad_request("reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise refusals.bad_request("reply consumer already set")
    session = channel.session
    placeholder = Queue(REPLY_TO, 0, session.vhost.env, _NO_SETTINGS)
    consumer = Consumer(channel, placeholder, tag, True, False, 0, request.arguments)
    channel.consumers[tag] = channel.reply_consumer = consumer
    session.server.reply_targets.add(channel)
    channel.reply(m.BasicConsumeOk(tag), request.no_wait)


def basic_cancel(channel: BrokerChannel, request: m.BasicCancel) -> None:
    """basic.cancel: end a consumer; an unknown tag is not an error."""
    consumer = channel.consumers.get(request.consumer_tag)
    if consumer is not None:
        channel.drop_consumer(consumer)
    channel.reply(m.BasicCancelOk(request.consumer_tag), request.no_wait)


def basic_get(channel: BrokerChannel, request: m.BasicGet) -> None:
    """basic.get: return one message, regardless of the prefetch."""
    session = channel.session
    session.require(Right.READ, "queue", named_queue(channel, request.queue))
    source = queue_for(channel, request.queue)
    if isinstance(source, ServiceQueue):
        session.settlements.flush()  # messages returned before this request are available again
        source.get(Getter(channel, source, request.no_ack))
        return
    _get(channel, source, request.no_ack)


def _get(channel: BrokerChannel, source: Queue, no_ack: bool) -> None:
    session, entry = channel.session, source.get()
    if entry is None and len(source.ready):
        _get_later(channel, source, no_ack)
        return
    if entry is None:
        channel.send(m.BasicGetEmpty())
        return
    message, redelivered = entry.message, entry.deliveries > 0
    tag = channel.assign_tag(source, entry, message.size, no_ack)
    method = m.BasicGetOk(tag, redelivered, message.exchange, message.routing_key, len(source.ready))
    header = redelivery_header(entry, session.machine.payload_max) if redelivered else message.header
    channel.send_content(method, header, message.body)
    if no_ack:
        source.settle([entry], Disposition.ACK)
    else:
        watch_timeout(channel, source)


def _get_later(channel: BrokerChannel, source: Queue, no_ack: bool) -> None:
    """Wait until the next message, which is not in memory, has been read from the store."""

    def retry() -> None:
        if channel.is_open:
            _get(channel, source, no_ack)
        channel.release()

    channel.hold()
    source.read_waiters.append(retry)


class Getter:
    """One basic.get of a service queue: the channel waits until the service has answered."""

    __slots__ = ("_channel", "_no_ack", "_source")

    def __init__(self, channel: BrokerChannel, source: ServiceQueue, no_ack: bool) -> None:
        self._channel = channel
        self._source = source
        self._no_ack = no_ack
        channel.hold()

    @property
    def is_waiting(self) -> bool:
        return self._channel.is_open and not self._channel.is_stopped

    def fits(self, header: ContentHeader) -> bool:
        return len(header.raw) <= self._channel.session.machine.payload_max

    def answer(self, delivery: ServiceDelivery | None, remaining: int) -> None:
        channel = self._channel
        if not channel.is_open:
            if delivery is not None:
                channel.session.settlements.add(self._source, None, delivery.token, Disposition.LOST)
            return
        if delivery is None:
            channel.send(m.BasicGetEmpty())
        else:
            tag = channel.assign_tag(self._source, delivery.token, len(delivery.body), self._no_ack)
            method = m.BasicGetOk(tag, delivery.redelivered, delivery.exchange, delivery.routing_key, remaining)
            channel.send_content(method, delivery.header, delivery.body)
            if self._no_ack:
                channel.session.settlements.add(self._source, None, delivery.token, Disposition.ACK)
        channel.release()


def basic_recover(channel: BrokerChannel, request: m.BasicRecover) -> None:
    """basic.recover; see ``BrokerChannel.recover``."""
    channel.send(m.BasicRecoverOk())
    channel.recover(request.requeue)


def basic_recover_async(channel: BrokerChannel, request: m.BasicRecoverAsync) -> None:
    """basic.recover-async: as basic.recover, without a reply."""
    channel.recover(request.requeue)


def confirm_select(channel: BrokerChannel, request: m.ConfirmSelect) -> None:
    """confirm.select (RabbitMQ): number and confirm publishes from now on."""
    if channel.transaction is not None:
        raise refusals.bad_request("cannot switch from tx to confirm mode")
    if channel.confirms is None:
        channel.confirms = Confirms()
        channel.publications.begin_confirms()
    channel.reply(m.ConfirmSelectOk(), request.no_wait)


def tx_select(channel: BrokerChannel, request: m.TxSelect) -> None:
    """tx.select: use transactions on this channel from now on."""
    if channel.confirms is not None:
        raise refusals.bad_request("cannot switch from confirm to tx mode")
    channel.transaction = channel.transaction or Transaction(channel.session.server.in_transactions)
    channel.send(m.TxSelectOk())


def tx_commit(channel: BrokerChannel, request: m.TxCommit) -> None:
    """tx.commit: the reply follows when everything has taken effect."""
    _transaction_of(channel)

    def done() -> None:
        channel.send(m.TxCommitOk())
        channel.release()

    channel.hold()
    pending = Commit(channel)
    pending.on_done = done
    CommitInProgress(channel, pending).start()


def tx_rollback(channel: BrokerChannel, request: m.TxRollback) -> None:
    """tx.rollback: discard publishes, and make settled deliveries outstanding again."""
    channel.restore_unacked(_transaction_of(channel).roll_back())
    channel.send(m.TxRollbackOk())


def _transaction_of(channel: BrokerChannel) -> Transaction:
    if channel.transaction is None:
        raise refusals.bad_request("channel is not transactional")
    return channel.transaction


MESSAGES: dict[type[m.Method], Callable[[BrokerChannel, Any], None]] = {
    m.BasicQos: basic_qos,
    m.BasicConsume: basic_consume,
    m.BasicCancel: basic_cancel,
    m.BasicGet: basic_get,
    m.BasicRecover: basic_recover,
    m.BasicRecoverAsync: basic_recover_async,
    m.ConfirmSelect: confirm_select,
    m.TxSelect: tx_select,
    m.TxCommit: tx_commit,
    m.TxRollback: tx_rollback,
}
_NO_SETTINGS = QueueSettings()
