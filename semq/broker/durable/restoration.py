"""Rebuilding of the virtual hosts from the store, before any connection is accepted."""

import logging
from collections.abc import Mapping

from semq.amqp.content import ContentHeader
from semq.amqp.wire import decode_table
from semq.broker.arguments import BadArgumentError, QueueSettings, read_queue_arguments
from semq.broker.queues.bodies import Bodies, Body, StoredBody
from semq.broker.queues.delay import PREFIX as DELAYED
from semq.broker.queues.message import QueueEntry
from semq.broker.queues.queue import Queue
from semq.broker.routing.exchanges import EXCHANGE_TYPES, Binding, BindingDestination, DelayedExchange
from semq.broker.services import ServiceQueue
from semq.broker.vhost import VirtualHost
from semq.store.broker.operations import AddMessage, Bind, DeclareQueue, StoredState

log = logging.getLogger(__name__)


def restore(state: StoredState, vhosts: Mapping[str, VirtualHost], bodies: Bodies) -> None:
    """Restore exchanges, queues, bindings and messages, except those of virtual hosts that are not configured."""
    for exchange in state.exchanges:
        vhost = vhosts.get(exchange.vhost)
        if vhost is not None and exchange.name not in vhost.exchanges:
            vhost.put_exchange(
                EXCHANGE_TYPES[exchange.type](
                    exchange.name,
                    durable=True,
                    auto_delete=exchange.auto_delete,
                    internal=exchange.internal,
                    arguments=decode_table(exchange.arguments)[0],
                    encoded_arguments=exchange.arguments,
                )
            )
    queues: dict[int, Queue] = {}
    for row in state.queues:
        vhost = vhosts.get(row.vhost)
        if vhost is None:
            continue
        delayed = vhost.exchanges.get(row.name.removeprefix(DELAYED)) if row.name.startswith(DELAYED) else None
        if isinstance(delayed, DelayedExchange):
            queues[row.queue_id] = vhost.put_delayed(delayed, row.queue_id)
            continue
        existing = vhost.queues.get(row.name)
        if isinstance(existing, ServiceQueue) and existing.supported:
            existing.queue_id = row.queue_id
            existing.change(_settings(row, decode_table(row.arguments)[0]))
        elif existing is None:
            queue = queues[row.queue_id] = _queue(row, vhost)
            vhost.put_queue(queue)
            queue.restore_marks(state.handed_out.get(row.queue_id, 0))
    for binding in state.bindings:
        vhost = vhosts.get(binding.vhost)
        if vhost is not None:
            _bind(binding, vhost)
    without_queue = _restore_messages(state, queues, bodies)
    if without_queue:
        log.warning("the store has %d messages of queues that were not restored; they stay in the store", without_queue)


def _restore_messages(state: StoredState, queues: Mapping[int, Queue], bodies: Bodies) -> int:
    """Put messages into their queues; return the number of messages whose queue was not restored."""
    shared: dict[int, StoredBody] = {}
    without_queue = 0
    for message in state.messages:
        queue = queues.get(message.queue_id)
        if queue is None:
            without_queue += 1
        else:
            backlog = state.backlogs.get(message.queue_id)
            queue.restore(_entry(message, queue, shared, bodies), backlog.positions[0] if backlog else None)
    for queue_id, backlog in state.backlogs.items():
        if queue_id in queues:
            queues[queue_id].restore_backlog(backlog)
        else:
            without_queue += len(backlog.positions)
    for queue in queues.values():
        queue.end_restore()
    for body in shared.values():
        body.release()  # from now on only the queues retain it
    return without_queue


def _queue(row: DeclareQueue, vhost: VirtualHost) -> Queue:
    arguments = decode_table(row.arguments)[0]
    return Queue(
        row.name,
        row.queue_id,
        vhost.env,
        _settings(row, arguments),
        durable=True,
        auto_delete=row.auto_delete,
        arguments=arguments,
        encoded_arguments=row.arguments,
    )


def _settings(row: DeclareQueue, arguments: Mapping[str, object]) -> QueueSettings:
    """Return the settings of a queue. Arguments that are no longer permitted have no effect."""
    while True:
        try:
            return read_queue_arguments(arguments)
        except BadArgumentError as error:
            log.warning("queue %s in %s ignores an argument that is not permitted: %s", row.name, row.vhost, error)
            arguments = {name: value for name, value in arguments.items() if name != error.name}


def _bind(row: Bind, vhost: VirtualHost) -> None:
    source = vhost.exchanges.get(row.source)
    destination: BindingDestination | None = (vhost.exchanges if row.to_exchange else vhost.queues).get(row.destination)
    if source is None or destination is None:
        log.warning("the store has a binding with a missing end: %s -> %s", row.source, row.destination)
        return
    vhost.put_binding(Binding(source, destination, row.routing_key, row.arguments), decode_table(row.arguments)[0])


def _entry(row: AddMessage, queue: Queue, shared: dict[int, StoredBody], bodies: Bodies) -> QueueEntry:
    body: Body | None = None
    if row.body_id:
        size = ContentHeader.parse(row.header).body_size
        body = shared.setdefault(row.body_id, StoredBody(bodies, row.body_id, size))
    return queue.entry_of_row(row, body)
