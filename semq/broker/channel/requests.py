"""What each event of a channel does, which method it comes from, and what it costs while it waits."""

from collections.abc import Callable
from typing import Any

from semq.amqp import events as e
from semq.amqp import methods as m
from semq.broker import refusals
from semq.broker.channel.arrival import ArrivingBody
from semq.broker.channel.channel import BrokerChannel
from semq.broker.channel.commands import DEFINITIONS
from semq.broker.channel.consumption import MESSAGES
from semq.broker.channel.publication import publish
from semq.broker.queues.queue import Disposition


def produces_output(event: e.ConnectionEvent) -> bool:
    """Return whether an event produces output immediately, and so must wait while the client does not read."""
    return isinstance(event, e.MethodReceived) or (isinstance(event, e.Published) and event.mandatory)


def cost(event: e.ConnectionEvent) -> int:
    """Return the cost of a waiting event: one, and one for each 4 KiB of content."""
    if isinstance(event, e.BodyChunk):
        return 1 + len(event.data) // 4096
    return 1 + len(event.body) // 4096 if isinstance(event, e.Published) else 1


def cause(event: e.ConnectionEvent) -> tuple[int, int]:
    """Return class and method of the request of an event."""
    if isinstance(event, e.MethodReceived):
        return event.method.row.class_id, event.method.row.method_id
    return _METHOD_IDS.get(type(event), (0, 0))


def _published(channel: BrokerChannel, event: e.Published) -> None:
    channel.session.note_published()
    publish(channel, event)


def _content_started(channel: BrokerChannel, event: e.ContentStarted) -> None:
    channel.session.note_published()
    assert isinstance(event.method, m.BasicPublish)
    channel.arrival = ArrivingBody(channel, event.method, event.header)


def _body_chunk(channel: BrokerChannel, event: e.BodyChunk) -> None:
    if channel.arrival is not None:
        channel.arrival.add(event.data)


def _content_finished(channel: BrokerChannel, event: e.ContentFinished) -> None:
    arrival, channel.arrival = channel.arrival, None
    if arrival is not None:
        arrival.finish()


def _acked(channel: BrokerChannel, event: e.Acked) -> None:
    channel.settle(event.delivery_tag, event.multiple, Disposition.ACK)


def _nacked(channel: BrokerChannel, event: e.Nacked) -> None:
    disposition = Disposition.REQUEUE if event.requeue else Disposition.REJECT
    channel.settle(event.delivery_tag, event.multiple, disposition)


def _rejected(channel: BrokerChannel, event: e.Rejected) -> None:
    channel.settle(event.delivery_tag, False, Disposition.REQUEUE if event.requeue else Disposition.REJECT)


def _channel_closed(channel: BrokerChannel, event: e.ChannelClosed) -> None:
    session = channel.session
    if event.error is not None and not event.by_peer:
        session.fail_channel(channel, event.error)
        return
    channel.stop()
    session.end_if_answered(channel)


def _flow_changed(channel: BrokerChannel, event: e.FlowChanged) -> None:
    channel.is_flowing = event.active
    channel.send(m.ChannelFlowOk(event.active))
    if event.active:
        channel.resume(channel.consumers.values())


def _method(channel: BrokerChannel, event: e.MethodReceived) -> None:
    handler = _REQUESTS.get(type(event.method))
    if handler is None:
        raise refusals.not_implemented(f"{event.method.row.name} is not supported")
    handler(channel, event.method)


_REQUESTS: dict[type[m.Method], Callable[[BrokerChannel, object], None]] = {
    **DEFINITIONS,
    **MESSAGES,
}

_METHOD_IDS: dict[type[e.ConnectionEvent], tuple[int, int]] = {
    e.Published: (60, 40),
    e.ContentStarted: (60, 40),
    e.Acked: (60, 80),
    e.Rejected: (60, 90),
    e.Nacked: (60, 120),
}

HANDLERS: dict[type[e.ConnectionEvent], Callable[[BrokerChannel, Any], None]] = {
    e.Published: _published,
    e.ContentStarted: _content_started,
    e.BodyChunk: _body_chunk,
    e.ContentFinished: _content_finished,
    e.Acked: _acked,
    e.Nacked: _nacked,
    e.Rejected: _rejected,
    e.FlowChanged: _flow_changed,
    e.ChannelClosed: _channel_closed,
    e.MethodReceived: _method,
}
