"""Dead-lettering: the headers of a message after it died in a queue, and the detection of cycles. Pure.

RabbitMQ's rules for dead-letter exchanges:

- The header x-death has an entry for each queue and reason, with a count; the latest entry is the first. The headers
  ``x-first-death-*`` never change.
- The expiration is removed, so that the message does not expire again in the next queue.
- A message that would return to a queue in which it died is dropped, unless that death or a later one was a rejection.

Here x-death lists at most a hundred deaths; ``x-deaths-forgotten`` counts the unlisted ones. A message with more than
a hundred unlisted deaths is dropped, too, unless a listed death is a rejection: it may be in a cycle longer than the
list.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from semq.amqp.wire import Timestamp
from semq.broker.environment import DeathReason
from semq.broker.queues.message import Message

Death = Mapping[str, Any]

_DEATHS_MAX = 100  # deaths listed in one message, since its header must fit into a frame
_FORGOTTEN = "x-deaths-forgotten"  # header: number of deaths that are not listed
_FORGOTTEN_MAX = 100


def dead_letter(
    message: Message, queue: str, reason: DeathReason, at: datetime, exchange: str, routing_key: str | None
) -> Message:
    """Return the message for the dead-letter ``exchange``; with ``routing_key`` None it keeps its own routing keys."""
    deaths = _deaths(message, queue, reason, at)
    headers: dict[str, Any] = {"x-death": deaths[:_DEATHS_MAX]}
    if len(deaths) > _DEATHS_MAX:
        headers[_FORGOTTEN] = _forgotten(message) + len(deaths) - _DEATHS_MAX
    if "x-first-death-queue" not in message.headers():
        headers["x-first-death-queue"] = queue
        headers["x-first-death-reason"] = reason.value
        headers["x-first-death-exchange"] = message.exchange
    if routing_key is not None:
        headers["CC"] = None  # the new routing key replaces all old ones
    header = message.header.amended(headers=headers, expiration=None)
    return Message(exchange, message.routing_key if routing_key is None else routing_key, header, message.body)


def would_cycle(message: Message, queue: str) -> bool:
    """Return whether the message has, or may have, died in ``queue``, and neither that death nor a later one was a
    rejection.
    """
    deaths = read_deaths(message)
    last = len(deaths) - 1 if _forgotten(message) > _FORGOTTEN_MAX else None
    at = next((index for index, death in enumerate(deaths) if death.get("queue") == queue), last)
    return at is not None and all(death.get("reason") != DeathReason.REJECTED.value for death in deaths[: at + 1])


def read_deaths(message: Message) -> list[Death]:
    """Return the x-death header, latest first; invalid values of clients are ignored."""
    deaths = message.headers().get("x-death")
    return [death for death in deaths if isinstance(death, Mapping)] if isinstance(deaths, list) else []


def _forgotten(message: Message) -> int:
    count = message.headers().get(_FORGOTTEN)
    return count if isinstance(count, int) else 0


def _deaths(message: Message, queue: str, reason: DeathReason, at: datetime) -> list[dict[str, Any]]:
    earlier = [dict(death) for death in read_deaths(message)]
    repeated = next((d for d in earlier if d.get("queue") == queue and d.get("reason") == reason.value), None)
    if repeated is not None:
        count = repeated.get("count")
        return [
            {**repeated, "count": (count if isinstance(count, int) else 0) + 1},
            *(d for d in earlier if d is not repeated),
        ]
    death: dict[str, Any] = {
        "count": 1,
        "reason": reason.value,
        "queue": queue,
        "time": Timestamp(int(at.timestamp())),
        "exchange": message.exchange,
        "routing-keys": list(message.routing_keys),
    }
    if message.expiration is not None:
        death["original-expiration"] = str(message.expiration)
    return [death, *earlier]
