"""Where the broker ends and the node begins: exchanges and queues that are served by code instead of kept by the model.

A node derives from ``ServiceExchange`` and ``ServiceQueue`` and registers them in a virtual host. Clients cannot tell
them from ordinary ones, except that they can neither declare, bind, purge nor delete them. Both are called
synchronously, in the event loop, and must not block; what takes time is answered later through ``settle`` or by
pushing to the consumer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol, TypeAlias

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError
from semq.broker.queues.queue import Disposition
from semq.broker.routing.exchanges import Binding, Destination, Exchange, Headers
from semq.transport.peer import PeerInfo


@dataclass(frozen=True, slots=True, eq=False)
class SessionInfo:
    """Who is connected. ``close(error)`` ends the connection from outside, with the reply code of ``error``.

    ``state`` is the service's own: whatever it wants to find again with the session.
    """

    user: str
    peer: PeerInfo
    vhost: str
    client_properties: Mapping[str, Any]
    connected_at: datetime
    close: Callable[[AmqpError], None]
    state: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The service took the message: it is safe."""


@dataclass(frozen=True, slots=True)
class Nacked:
    """The service could not take the message; the publisher may offer it again.

    A channel without confirms cannot be told so: it ends with ``error``, if there is one.
    """

    error: AmqpError | None = None


@dataclass(frozen=True, slots=True)
class ReturnedToSender:
    """Nobody there for a mandatory message: it is returned with this code and text, and confirmed."""

    reply_code: int = 312
    reply_text: str = "NO_ROUTE"


@dataclass(frozen=True, slots=True)
class Refused:
    """The message is not acceptable: the channel ends with this error."""

    error: AmqpError


Outcome: TypeAlias = Confirmed | Nacked | ReturnedToSender | Refused
Settle: TypeAlias = Callable[[Outcome], None]

CONFIRMED = Confirmed()
NACKED = Nacked()


class ServiceExchange(Exchange):
    """An exchange whose messages go to code. ``service_type`` is what a client sees as its type, ``x-…``.

    Messages come whole; those of more than ``body_max`` octets, or than any client of the server may send, are refused
    before their body (311). One that ``drains`` goes by its own ``body_max`` alone and gets larger messages too,
    without their body: what ``header.body_size`` says was read and dropped.
    """

    is_service = True
    drains: ClassVar[bool] = False
    __slots__ = ("body_max", "service_type")

    def __init__(self, name: str, service_type: str, body_max: int = 128 << 20) -> None:
        super().__init__(name, durable=True)
        self.service_type = service_type
        self.body_max = body_max

    @property
    def shown_type(self) -> str:
        return self.service_type

    def publish(
        self,
        session: SessionInfo,
        routing_key: str,
        header: ContentHeader,
        body: bytes,
        mandatory: bool,
        settle: Settle,
    ) -> None:
        """Take one message. Call ``settle`` exactly once, now or later, in the event loop; the channel may be gone by
        then.

        An AmqpError raised here is the same as settling with ``Refused``.
        """
        raise NotImplementedError

    def match(self, routing_key: str, headers: Headers) -> list[Destination]:
        return []

    def bind(self, binding: Binding, arguments: Mapping[str, Any]) -> bool:
        raise NotImplementedError("nothing is bound to a service exchange")


class ServiceConsumer(Protocol):
    """A consumer of a service queue, as the service sees it."""

    tag: str
    no_ack: bool
    arguments: Mapping[str, Any]

    @property
    def session(self) -> SessionInfo:
        """Whose consumer it is."""

    @property
    def credit(self) -> int:
        """How many messages may be delivered now; after 0, ``ServiceQueue.wake`` tells when it is more again."""

    def deliver(
        self,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: bytes,
        redelivered: bool,
        token: Any,
    ) -> None:
        """Give it one message; ``token`` comes back in ``ServiceQueue.settled`` (with no-ack: at once, as
        acknowledged)."""

    def cancel(self) -> None:
        """End it: the client is told (consumer cancel notify), its unacknowledged tokens come back as lost."""


@dataclass(slots=True)
class ServiceDelivery:
    """What a service gives for basic.get."""

    exchange: str
    routing_key: str
    header: ContentHeader
    body: bytes
    redelivered: bool
    token: Any


class ServiceGetter(Protocol):
    """One basic.get of a service queue: its channel waits for the answer."""

    @property
    def is_waiting(self) -> bool:
        """Whether somebody still waits; the channel may have been closed."""

    def answer(self, found: ServiceDelivery | None, left: int) -> None:
        """What was found (None: nothing), and how many messages wait after it. To be called once; what nobody waits for
        any more comes back as lost."""


class ServiceQueue:
    """A queue whose messages come from code."""

    is_service: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.incoming: dict[Binding, None] = {}

    def may_attach(self, session: SessionInfo, exclusive: bool) -> AmqpError | None:
        """Whether this session may consume here; the error that refuses it, if not."""
        return None

    def attach(self, consumer: ServiceConsumer) -> None:
        """A consumer is there; it has been told its tag, deliveries may begin at once."""
        raise NotImplementedError

    def detach(self, consumer: ServiceConsumer) -> None:
        """The consumer is gone. What it has not settled may still be settled while its channel lives, or comes as
        lost."""
        raise NotImplementedError

    def wake(self, consumer: ServiceConsumer) -> None:
        """The consumer's credit rose above zero again."""
        raise NotImplementedError

    def settled(self, consumer: ServiceConsumer | None, tokens: list[Any], disposition: Disposition) -> None:
        """What became of deliveries, gathered over one read of the consumer's socket, in order. None: taken by
        ``get``."""
        raise NotImplementedError

    def get(self, getter: ServiceGetter) -> None:
        """basic.get: answer ``getter``, now or later, in the event loop."""
        getter.answer(None, 0)

    def counts(self, answer: Callable[[int, int], None]) -> None:
        """Tell, now or later, how many messages wait and how many consumers there are (queue.declare)."""
        answer(0, 0)
