"""The interface between broker and node: exchanges and queues that are served by code of the node.

A node derives classes from ``ServiceExchange`` and ``ServiceQueue`` and registers their objects in a virtual host. To
clients these look like exchanges and queues that were declared before, but clients cannot bind, purge or delete them.
The methods are called synchronously in the event loop and must not block. An answer that takes time is given later, by
the callback or object that the method gets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError
from semq.broker.queues.bodies import Body, LargeBody
from semq.broker.queues.queue import Disposition
from semq.broker.routing.exchanges import Binding, BindingDestination, Exchange, Headers
from semq.transport.peer import PeerInfo


@dataclass(frozen=True, slots=True, eq=False)
class SessionInfo:
    """A connection and its user. ``close(error)`` lets a service end the connection, with the reply code of ``error``.

    ``state`` belongs to the service, which may keep data of the session in it.
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
    """The service accepted the message: it is safe."""


@dataclass(frozen=True, slots=True)
class ServiceNacked:
    """The service could not accept the message; the publisher may repeat it.

    A channel without confirms has no nack. It is closed with ``error``; if ``error`` is None, nothing is sent.
    """

    error: AmqpError | None = None


@dataclass(frozen=True, slots=True)
class ReturnedToSender:
    """The message has no receiver. It is confirmed; a mandatory one is returned first, with this code and text."""

    reply_code: int = 312
    reply_text: str = "NO_ROUTE"


@dataclass(frozen=True, slots=True)
class Refused:
    """The message is not acceptable: the channel is closed with this error."""

    error: AmqpError


Outcome: TypeAlias = Confirmed | ServiceNacked | ReturnedToSender | Refused
Settle: TypeAlias = Callable[[Outcome], None]

CONFIRMED = Confirmed()
NACKED = ServiceNacked()


class ArrivingDocument(LargeBody):
    """A large body that a service receives in parts; when complete, it is passed in an OfferedMessage."""

    def add(self, data: bytes) -> None:
        """Add the next bytes."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Discard the body: the channel was closed before the last byte."""
        raise NotImplementedError


class OfferedMessage(NamedTuple):
    """A message that a client has published to a service. ``body`` is empty if ``document`` has it, or if it was
    dropped.
    """

    session: SessionInfo
    routing_key: str
    header: ContentHeader
    body: bytes
    mandatory: bool
    settle: Settle
    document: ArrivingDocument | None = None  #: the body as received by the service in parts, instead of ``body``


class ServiceExchange(Exchange):
    """An exchange whose messages are processed by code. ``service_type`` is the type that clients see, ``x-…``.

    A message is passed to ``publish`` when all of it has arrived. Its body may have up to ``body_max`` bytes, but not
    more than the server's limit (``AmqpServer.message_max``); with ``drains`` or ``streams``, ``body_max`` alone
    counts. A message with a larger body is refused (311): at the content header if the body arrives in chunks
    (``BrokerLimits.spill_from``), otherwise when all of it has arrived. With ``drains`` it is not refused but passed
    without its body, which is read and dropped; ``header.body_size`` states its size.
    """

    is_service = True
    drains: ClassVar[bool] = False  #: larger messages are not refused, but passed without their body
    streams: ClassVar[bool] = False  #: the service receives large bodies in parts (``arriving``)
    __slots__ = ("body_max", "service_type")

    def __init__(self, name: str, service_type: str, body_max: int = 128 << 20) -> None:
        super().__init__(name, durable=True)
        self.service_type = service_type
        self.body_max = body_max

    @property
    def shown_type(self) -> str:
        return self.service_type

    def arriving(
        self, session: SessionInfo, routing_key: str, header: ContentHeader, pause: Callable[[bool], None]
    ) -> ArrivingDocument | None:
        """Return the receiver of a large body that begins to arrive; None: the body is collected in memory.

        ``pause`` stops reading from the client (True), and resumes (False). Raises AmqpError to refuse the message.
        """
        return None

    def publish(self, message: OfferedMessage) -> None:
        """Process one message. Call ``message.settle`` exactly once, now or later, in the event loop; the channel
        may be closed by then.

        An AmqpError raised here is the same as settling with ``Refused``.
        """
        raise NotImplementedError

    def match(self, routing_key: str, headers: Headers) -> list[BindingDestination]:
        return []

    def bind(self, binding: Binding, arguments: Mapping[str, Any]) -> bool:
        raise NotImplementedError("a service exchange cannot be bound")


class ServiceConsumer(Protocol):
    """A consumer of a service queue, as the service sees it."""

    tag: str
    no_ack: bool
    arguments: Mapping[str, Any]

    @property
    def session(self) -> SessionInfo:
        """The session of the consumer."""

    @property
    def credit(self) -> int:
        """The number of messages that may be delivered now. If it is 0, ``ServiceQueue.resume`` is called once it may
        have risen.
        """

    def deliver(
        self,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Body,
        redelivered: bool,
        token: Any,
    ) -> None:
        """Deliver one message. ``token`` is passed to ``ServiceQueue.settled`` when the client settles the delivery.
        For a consumer with ``no_ack`` it is passed at the end of the turn, as acknowledged.
        """

    def cancel(self) -> None:
        """End the consumer: the client is notified (consumer cancel notify), and unacknowledged tokens are settled as
        lost.
        """


@dataclass(slots=True)
class ServiceDelivery:
    """The answer of a service to basic.get."""

    exchange: str
    routing_key: str
    header: ContentHeader
    body: Body
    redelivered: bool
    token: Any


class ServiceGetter(Protocol):
    """One basic.get of a service queue; its channel waits for the answer."""

    @property
    def is_waiting(self) -> bool:
        """Whether the channel still waits; it may have been closed."""

    def answer(self, delivery: ServiceDelivery | None, remaining: int) -> None:
        """Answer with a message (None: there is none) and the number of messages left after it. To be called once; a
        message for a channel that was closed meanwhile is settled as lost.
        """


class ServiceQueue:
    """A queue whose messages are supplied by code."""

    is_service: ClassVar[bool] = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.incoming: dict[Binding, None] = {}

    def may_attach(self, session: SessionInfo, exclusive: bool) -> AmqpError | None:
        """Return None if this session may consume here, otherwise the error that refuses it."""
        return None

    def attach(self, consumer: ServiceConsumer) -> None:
        """Add a consumer. Its client has been sent consume-ok; deliveries may begin immediately."""
        raise NotImplementedError

    def detach(self, consumer: ServiceConsumer) -> None:
        """Remove a consumer. While its channel is open, the client may still settle its deliveries; those that are open
        when the channel ends are settled as lost.
        """
        raise NotImplementedError

    def resume(self, consumer: ServiceConsumer) -> None:
        """Note that the consumer's credit may have risen; it may still be zero."""
        raise NotImplementedError

    def settled(self, consumer: ServiceConsumer | None, tokens: list[Any], disposition: Disposition) -> None:
        """Note that deliveries were settled, in order. All settlements of one consumer with one disposition that arrive
        in one read of the client's socket are one call. ``consumer`` is None for messages of basic.get.
        """
        raise NotImplementedError

    def get(self, getter: ServiceGetter) -> None:
        """Process basic.get: answer ``getter``, now or later, in the event loop."""
        getter.answer(None, 0)

    def counts(self, answer: Callable[[int, int], None]) -> None:
        """Answer queue.declare, now or later, with the number of waiting messages and of consumers."""
        answer(0, 0)
