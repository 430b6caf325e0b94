"""Topic exchange ``semq.events``: events about the documents that the institution sends.

The routing key is ``<event>.<target>.<type of the AppKey>``, for instance ``delivered.56001.order``; the body is JSON.
An event for a durable queue is committed in the transaction of the change that it reports.
"""

from collections.abc import Sequence
from itertools import count

import msgspec

from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import clipped
from semq.broker.vhost import PreparedPublish, VirtualHost
from semq.engine.ports import AppEvent

EVENTS = "semq.events"
PERSISTENT = 2
_encode = msgspec.json.Encoder().encode
_refusal_numbers = count(1)  #: unique within the process


class EventExchange:
    """The engine's ``Events``: publishes events to exchange ``semq.events``."""

    def __init__(self, vhost: VirtualHost) -> None:
        self._vhost = vhost

    def prepare(self, event: AppEvent) -> PreparedPublish | None:
        """Prepare the event for the bound queues; None if there are none."""
        vhost = self._vhost
        exchange, key = vhost.exchanges.get(EVENTS), routing_key(event)
        if exchange is None or not any(True for _ in exchange.match(key, dict)):
            return None  # most events have no queue: they are not even written
        header, body = event_message(event)
        return vhost.prepare_publish(EVENTS, key, header, body)

    def publish(self, prepared: Sequence[PreparedPublish]) -> None:
        for publication in prepared:
            publication.commit()


def declare_events(vhost: VirtualHost) -> None:
    """Create the exchange. Only the node publishes to it: applications trust an event as they trust the node."""
    vhost.declare_exchange(EVENTS, "topic", True, False, False, {})
    vhost.exchanges[EVENTS].belongs_to_node = True


def routing_key(event: AppEvent) -> str:
    """Return ``<event>.<target>.<type>``; dots in the type become dashes.

    A missing target is written as ``none``, a missing type as ``any``.
    """
    type_ = (event.app_key.type or "any").replace(".", "-")
    return clipped(f"{event.kind}.{event.target.id if event.target else 'none'}.{type_}")


def event_message(event: AppEvent) -> tuple[ContentHeader, bytes]:
    """Return the event as an AMQP message."""
    body = _encode(
        {
            "event": event.kind,
            "lk0": str(event.lk0 or ""),
            "target": str(event.target or ""),
            "app_key": str(event.app_key),
            "at": event.at,
            "attempt": event.att,
            "outcome": event.outcome,
            "reason": list(event.reason) if event.reason else None,
            "token": event.token,
            "submission": event.submission or None,
            **({"count": event.count, "tokens": event.tokens} if event.count > 1 else {}),
            **({"corrects": event.corrects} if event.corrects else {}),
            **({"group": event.group._asdict()} if event.group else {}),
        }
    )
    properties = Properties(
        content_type="application/json",
        delivery_mode=PERSISTENT,
        # Event ``refused`` has no locator, and one token can be refused several times, so a number distinguishes them.
        message_id=f"{event.lk0 or f'{event.at}-{next(_refusal_numbers)}'}/{event.kind}/{event.att}",
        type=f"semq.{event.kind}",
        timestamp=event.at // 1000,
        headers={"@LK0": str(event.lk0 or ""), "@AppKey": str(event.app_key)},
    )
    return ContentHeader.build(len(body), properties), body
