"""Dead-lettering: the headers of a message after it died in a queue, and the detection of cycles. Pure.

RabbitMQ's rules for dead-letter exchanges:

- The header x-death has an entry for each queue and reason, with a count; the latest entry is the first. The headers
  ``x-first-death-*`` never change; ``x-last-death-*`` are those of the latest death, as since RabbitMQ 4.
- The expiration is removed, so that the message does not expire again in the next queue.
- A message that would return to a queue in which it died is dropped, unless that death or a later one was a rejection.
  As since RabbitMQ 4.0.1, deaths that a client has published do not count for this: a program that publishes a received
  message again does so deliberately. As in RabbitMQ 3, their counts continue. ``disowned`` marks these deaths.

Here x-death lists at most a hundred deaths, and fewer if the header would exceed a frame; ``x-deaths-forgotten`` counts
the unlisted ones. A message with more than a hundred unlisted deaths is dropped, too, unless a listed death is a
rejection: it may be in a cycle longer than the list.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from semq.amqp.content import ContentHeader
from semq.amqp.limits import ConnectionLimits
from semq.amqp.spec import FRAME_OVERHEAD
from semq.amqp.wire import Timestamp
from semq.broker.environment import DeathReason
from semq.broker.queues.message import Message

Death = Mapping[str, Any]

HEADER_MAX = ConnectionLimits().frame_max - FRAME_OVERHEAD  # bytes; a longer header fits into no client's frames
_DEATHS_MAX = 100  # deaths listed in one message
_FOREIGN = "published"  # field of a death: it was in a message that a client has published
_FORGOTTEN = "x-deaths-forgotten"  # header: number of deaths that are not listed
_FORGOTTEN_MAX = 100
_COUNT_MAX = 1 << 62  # so that the next number can be encoded


def dead_letter(
    message: Message, queue: str, reason: DeathReason, at: datetime, exchange: str, routing_key: str | None
) -> Message:
    """Return the message for the dead-letter ``exchange``; with ``routing_key`` None it keeps its own routing keys."""
    deaths = _deaths(message, queue, reason, at)
    death = {"queue": queue, "reason": reason.value, "exchange": message.exchange}
    ends: dict[str, Any] = {f"x-last-death-{name}": value for name, value in death.items()}
    if "x-first-death-queue" not in message.headers():
        ends |= {f"x-first-death-{name}": value for name, value in death.items()}
    replaced = {"CC": None} if routing_key is not None else {}  # the new routing key replaces all old ones
    header = message.header
    for record in _records(deaths, _forgotten(message), ends):
        header = message.header.amended(headers=replaced | record, expiration=None)
        if len(header.raw) <= HEADER_MAX:
            break
    else:  # only the record: a message that fits into no frame would stop its queue
        header = message.header.amended(headers=None, expiration=None).amended(headers=record)
    return Message(exchange, message.routing_key if routing_key is None else routing_key, header, message.body)


def _records(deaths: list[dict[str, object]], forgotten: int, ends: dict[str, object]) -> Iterator[dict[str, Any]]:
    """Yield headers that record the deaths: first the complete record, then shorter ones."""
    listed = min(len(deaths), _DEATHS_MAX)
    while listed:
        unlisted = {_FORGOTTEN: forgotten + len(_own(deaths[listed:]))} if len(deaths) > listed else {}
        yield {"x-death": deaths[:listed], **unlisted, **ends}
        listed //= 2
    count = {_FORGOTTEN: forgotten + len(_own(deaths))}  # never left out: it ends cycles
    yield {"x-death": None, **count, **ends}
    yield {"x-death": None, **count}


def disowned(header: ContentHeader) -> ContentHeader:
    """Return the header of a message of a client: its deaths are marked as published."""
    if b"x-death" not in header.raw:
        return header
    deaths = [{**death, _FOREIGN: True} for death in _listed(header.headers or {})]
    marked = header.amended(headers={"x-death": deaths or None, _FORGOTTEN: None})
    if len(marked.raw) > max(HEADER_MAX, len(header.raw)):
        marked = header.amended(headers={"x-death": None, _FORGOTTEN: None})  # it would fit into no frame
    return marked


def would_cycle(message: Message, queue: str) -> bool:
    """Return whether the message has, or may have, died in ``queue``, and neither that death nor a later one was a
    rejection.
    """
    deaths = _own(read_deaths(message))
    last = len(deaths) - 1 if _forgotten(message) > _FORGOTTEN_MAX else None
    at = next((index for index, death in enumerate(deaths) if death.get("queue") == queue), last)
    return at is not None and all(death.get("reason") != DeathReason.REJECTED.value for death in deaths[: at + 1])


def read_deaths(message: Message) -> list[Death]:
    """Return the x-death header, latest first; invalid values of clients are ignored."""
    return _listed(message.headers())


def _listed(headers: Mapping[str, object]) -> list[Death]:
    deaths = headers.get("x-death")
    return [death for death in deaths if isinstance(death, Mapping)] if isinstance(deaths, list) else []


def _forgotten(message: Message) -> int:
    return _count(message.headers().get(_FORGOTTEN))


def _own(deaths: Sequence[Death]) -> list[Death]:
    """Return the deaths since the message was published."""
    return [death for death in deaths if not death.get(_FOREIGN)]


def _count(value: object) -> int:
    """Return a count in a header, which may be any value of a client."""
    return min(max(value, 0), _COUNT_MAX) if isinstance(value, int) else 0


def _deaths(message: Message, queue: str, reason: DeathReason, at: datetime) -> list[dict[str, object]]:
    earlier = [dict(death) for death in read_deaths(message)]
    repeated = next((d for d in earlier if d.get("queue") == queue and d.get("reason") == reason.value), None)
    if repeated is not None:
        others = [death for death in earlier if death is not repeated]
        repeated.pop(_FOREIGN, None)
        return [{**repeated, "count": _count(repeated.get("count")) + 1}, *others]
    death: dict[str, object] = {
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
