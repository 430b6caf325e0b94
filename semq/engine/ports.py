"""What the engine needs of the world around it, and the values that cross the border.

A ``Link`` has three implementations that the engine cannot tell apart: an AMQP connection, a loop within the node, and
the simulator.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from semq.errors import SemqError
from semq.store.rows import Reason
from semq.umx_t.address import Address
from semq.umx_t.app_key import AppKey
from semq.umx_t.envelope import Attributes, Body, Data, Envelope, Frame, Packet
from semq.umx_t.locator import LK0


class Link(Protocol):
    """One session with a neighbour. Frames go out in order per kind (messages, packets) or not at all.

    Fire and forget.
    """

    @property
    def peer(self) -> Address:
        """The node at the other end, as authenticated."""

    @property
    def room(self) -> int:
        """How many messages may be sent now; packets are never held back."""

    def send(self, frame: Frame) -> None:
        """Send, or drop silently if the session is over: the rows and their timers repair it."""


@dataclass(slots=True)
class Submission:
    """A document that an application hands over."""

    target: Address
    attributes: Attributes
    body: Body
    done: Callable[["Accepted"], None]  #: called after the commit that makes it durable
    failed: Callable[[Exception], None]  #: refused, or its fate is unknown: repeat with the same token
    token: str = ""
    sender: str = ""
    digest: bytes = b""  #: filled in by the engine
    row_id: int = 0  #: of tb_0031_submit, for what came through SQL


class Accepted(msgspec.Struct, frozen=True):
    """The promise: this message is committed at this node."""

    lk0: LK0
    repeated: bool = False  #: the token was known: nothing new was written


class Delivery(msgspec.Struct, frozen=True):
    """A received document on its way to an application."""

    bref: int
    envelope: Envelope
    payload: bytes
    redelivered: bool
    deliveries: int


class Inbox(Protocol):
    """The consumers of received documents."""

    def free(self, user: str) -> int:
        """How many documents the consumers of this user can take now."""

    def give(self, user: str, delivery: Delivery) -> None:
        """Hand over; the answer comes back through ``finish``, ``give_back`` or ``fail``."""


class AppEvent(msgspec.Struct, frozen=True):
    """What an application is told of a document of its own (row Q15)."""

    kind: str  #: sent, forwarded, stored, delivered, failed
    lk0: LK0
    target: Address
    app_key: AppKey
    at: int
    att: int = 0
    outcome: str = ""
    reason: Reason | None = None


class PreparedEvent(Protocol):
    """An event on its way into queues."""

    @property
    def ops(self) -> Sequence[Any]:
        """Rows for the durable ones, to be committed with the change that the event tells of."""


class Events(Protocol):
    """Where application events go: the topic exchange ``semq.events``."""

    def prepare(self, event: AppEvent) -> PreparedEvent | None:
        """The event for the queues bound to it, or None if nobody listens."""

    def publish(self, prepared: Sequence[Any]) -> None:
        """The transaction is durable: hand the events to the queues."""


class Opener(Protocol):
    """Opens and checks what arrives, before it is recorded."""

    def open(self, envelope: Envelope, body: Body) -> bytes:
        """The payload in clear. Raises SemqError with the reason if it cannot be read: it is then recorded as REJ."""


class NoEvents:
    """Nobody listens."""

    def prepare(self, event: AppEvent) -> None:
        return None

    def publish(self, prepared: Sequence[Any]) -> None:
        return None


class NoInbox:
    """No consumers: documents wait in tb_0030."""

    def free(self, user: str) -> int:
        return 0

    def give(self, user: str, delivery: Delivery) -> None:
        raise AssertionError("given to nobody")


class ClearOpener:
    """Payloads in clear: nothing to open."""

    def open(self, envelope: Envelope, body: Body) -> bytes:
        return bytes(body)


Alarm = Callable[[SemqError], None]


@dataclass(slots=True)
class Counters:
    """What the node has done since it started, for metrics; names are the words of the ledger."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, count: int = 1) -> None:
        """Count something that happened."""
        self.counts[name] = self.counts.get(name, 0) + count


def runs(frames: Sequence[Frame]) -> Iterator[list[Data] | Packet]:
    """What was read together, in order: messages that follow one another as one list, packets by themselves."""
    messages: list[Data] = []
    for frame in frames:
        if isinstance(frame, Data):
            messages.append(frame)
            continue
        if messages:
            yield messages
            messages = []
        yield frame
    if messages:
        yield messages
