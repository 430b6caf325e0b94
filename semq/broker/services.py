"""The interface between broker and node: exchanges and queues that are served by code of the node.

Clients see them as declared exchanges and durable queues, but cannot bind, purge or delete them, nor declare a queue
with an argument that has no effect. The methods must not block.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from msgspec import Struct, field

from semq.amqp.content import ContentHeader
from semq.amqp.errors import AmqpError
from semq.amqp.wire import Table
from semq.broker.arguments import QueueSettings
from semq.broker.queues.bodies import Body, LargeBody
from semq.broker.queues.queue import Disposition
from semq.broker.routing.exchanges import Binding, BindingDestination, Exchange, Headers
from semq.transport.peer import PeerInfo


class SessionInfo(Struct, frozen=True, eq=False):
    """A connection and its user. A service may keep data in ``state``; ``close`` ends the connection.

    ``unsent`` returns the number of bytes of output that wait until the client reads.
    """

    user: str
    peer: PeerInfo
    vhost: str
    client_properties: Table
    connected_at: datetime
    close: Callable[[AmqpError], None]
    unsent: Callable[[], int]
    state: dict[str, Any] = field(default_factory=dict)


class Confirmed(Struct, frozen=True):
    """The service accepted the message."""


class ServiceNacked(Struct, frozen=True):
    """The service could not accept the message; the publisher may repeat it. A channel without confirms is closed with
    ``error``, unless it is None."""

    error: AmqpError | None = None


class ReturnedToSender(Struct, frozen=True):
    """The message has no receiver. It is confirmed; if it is mandatory, it is returned first."""

    reply_code: int = 312
    reply_text: str = "NO_ROUTE"


class Refused(Struct, frozen=True):
    """The message is refused; the channel is closed with this error."""

    error: AmqpError


Outcome: TypeAlias = Confirmed | ServiceNacked | ReturnedToSender | Refused
Settle: TypeAlias = Callable[[Outcome], None]

CONFIRMED = Confirmed()
NACKED = ServiceNacked()


class ArrivingDocument(LargeBody):
    """A large body that a service receives in parts."""

    def add(self, data: bytes) -> None:
        raise NotImplementedError

    def abandon(self) -> None:
        """Discard the incomplete body: the channel was closed."""
        raise NotImplementedError


class Publications:
    """The publishes of one channel, numbered from 1 in their order. The first one that closes the channel withdraws
    the later ones, so that a service takes none of them. The end of the channel waits for no outcome that a service
    only delays."""

    __slots__ = ("_before_confirms", "_count", "_delayed", "_is_ending", "_refused_at")

    def __init__(self) -> None:
        self._count = 0
        self._before_confirms = 0
        self._refused_at: int | None = None
        self._delayed: dict[int, Callable[[], None]] = {}
        self._is_ending = False

    def next_number(self) -> int:
        self._count += 1
        return self._count

    def begin_confirms(self) -> None:
        """Note confirm.select: delivery numbers begin with the next publish."""
        self._before_confirms = self._count

    def delivery_number(self, number: int) -> int:
        """Return the number under which the client knows a publish."""
        return number - self._before_confirms

    def delay(self, number: int, report: Callable[[], None]) -> Callable[[], None]:
        """Note that a service will report the outcome of a publish later; return the function that it must call then.
        ``report`` is called at once if the channel ends, or when it does.
        """
        self._delayed[number] = report
        if self._is_ending:
            self._report(number)
        return partial(self._report, number)

    def _report(self, number: int) -> None:
        report = self._delayed.pop(number, None)
        if report is not None:
            report()

    def end(self) -> None:
        """Report all delayed outcomes."""
        self._is_ending = True
        for number in list(self._delayed):
            self._report(number)

    def refuse(self, number: int) -> None:
        """Note that a publish closes the channel."""
        self._refused_at = min(number, self._refused_at or number)

    def is_withdrawn(self, number: int) -> bool:
        """Return whether an earlier publish closes the channel."""
        return self._refused_at is not None and number > self._refused_at


class OfferedMessage(NamedTuple):
    """A message that a client has published to a service. ``body`` is empty if ``document`` has it, or if the exchange
    ``drains`` it. ``number`` is the place in ``publications``, the publishes of its channel."""

    session: SessionInfo
    routing_key: str
    header: ContentHeader
    body: bytes
    mandatory: bool
    settle: Settle
    document: ArrivingDocument | None = None  #: the body, if the service has received it in parts
    publications: Publications | None = None
    number: int = 0


class ServiceExchange(Exchange):
    """An exchange whose messages are processed by code. ``service_type`` is the type that clients see, ``x-…``.

    ``publish`` gets complete messages. A body of more than ``body_max`` bytes is refused (311), unless the service
    ``drains``. If it neither ``drains`` nor ``streams``, ``AmqpServer.message_max`` applies, too.
    """

    is_service = True
    drains: ClassVar[bool] = False  #: messages above ``body_max`` are passed without body
    streams: ClassVar[bool] = False  #: large bodies are received by ``arriving``
    transacts: ClassVar[bool] = False  #: messages of transactions are processed by ``publish_whole``
    confirms_later: ClassVar[bool] = False  #: confirms wait for other output, LATER_S at most
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
        """Return the receiver of a large body; None: the body is collected in memory. Raises AmqpError to refuse the
        message. ``pause(True)`` stops reading from the client, ``pause(False)`` resumes."""
        return None

    def publish(self, message: OfferedMessage) -> None:
        """Process a message: call ``message.settle`` exactly once, now or later, or raise an AmqpError to refuse."""
        raise NotImplementedError

    def publish_whole(self, messages: Sequence[OfferedMessage]) -> None:
        """Process messages of one transaction: post their changes to the store, or raise an AmqpError. The changes are
        committed together with all others of the transaction; later the service calls ``settle`` of each message.
        """
        raise NotImplementedError

    def match(self, routing_key: str, headers: Headers) -> list[BindingDestination]:
        return []

    def bind(self, binding: Binding, arguments: Mapping[str, object]) -> bool:
        raise NotImplementedError("a service exchange cannot be bound")


class ServiceConsumer(Protocol):
    """A consumer of a service queue, as the service sees it."""

    tag: str
    no_ack: bool
    exclusive: bool
    priority: int
    arguments: Mapping[str, object]

    @property
    def session(self) -> SessionInfo: ...

    @property
    def credit(self) -> int:
        """The number of messages that may be delivered now. ``ServiceQueue.resume`` is called when it may have risen
        from 0."""

    def fits(self, header: ContentHeader) -> bool:
        """Return whether the header fits into a frame of the connection; another one must not be delivered."""

    def deliver(
        self,
        exchange: str,
        routing_key: str,
        header: ContentHeader,
        body: Body,
        redelivered: bool,
        token: object,
    ) -> None:
        """Deliver a message. ``ServiceQueue.settled`` gets ``token`` when the client settles the delivery; with
        ``no_ack``, at the end of the turn."""

    def cancel(self) -> None:
        """End the consumer and notify the client; unacknowledged tokens are settled as lost."""


class ServiceDelivery(Struct):
    """The answer of a service to basic.get."""

    exchange: str
    routing_key: str
    header: ContentHeader
    body: Body
    redelivered: bool
    token: object


class ServiceGetter(Protocol):
    """One basic.get of a service queue."""

    @property
    def is_waiting(self) -> bool:
        """Whether the channel is still open."""

    def fits(self, header: ContentHeader) -> bool:
        """Return whether the header fits into a frame of the connection; another one must not be the answer."""

    def answer(self, delivery: ServiceDelivery | None, remaining: int) -> None:
        """Answer once, with a message (None: there is none) and the number of messages left.

        If the channel was closed, the message is settled as lost.
        """


_NO_SETTINGS = QueueSettings()


class ServiceQueue:
    """A queue whose messages are supplied by code."""

    is_service: ClassVar[bool] = True
    supported: ClassVar[frozenset[str]] = frozenset()  #: arguments of queue.declare that ``change`` applies
    refused: ClassVar[Mapping[str, str]] = {}  #: reasons for the refusal of others

    def __init__(self, name: str) -> None:
        self.name = name
        self.incoming: dict[Binding, None] = {}
        self.queue_id = 0  #: the id under which the store has the arguments; 0: the queue was declared without

    @property
    def settings(self) -> QueueSettings:
        """The settings that supported arguments have changed."""
        return _NO_SETTINGS

    def may_change(self) -> bool:
        """Return whether ``change`` may be called now."""
        return False

    def change(self, settings: QueueSettings) -> None:
        """Apply the supported arguments of a declaration, or of one before a restart."""
        raise NotImplementedError

    def may_attach(self, session: SessionInfo, exclusive: bool) -> AmqpError | None:
        """Return None if this session may consume here, otherwise the error that refuses it."""
        return None

    def attach(self, consumer: ServiceConsumer) -> None:
        """Add a consumer; deliveries may begin immediately."""
        raise NotImplementedError

    def detach(self, consumer: ServiceConsumer) -> None:
        """Remove a consumer. Open deliveries can be settled until the channel ends, then they are settled as lost."""
        raise NotImplementedError

    def resume(self, consumer: ServiceConsumer) -> None:
        """Note that the consumer's credit may have risen."""
        raise NotImplementedError

    def settled(self, consumer: ServiceConsumer | None, tokens: list[object], disposition: Disposition) -> None:
        """Note settled deliveries, in order. ``consumer`` is None for messages of basic.get."""
        raise NotImplementedError

    def get(self, getter: ServiceGetter) -> None:
        """Answer basic.get, now or later."""
        getter.answer(None, 0)

    def counts(self, answer: Callable[[int, int], None]) -> None:
        """Answer queue.declare, now or later, with the numbers of waiting messages and of consumers."""
        answer(0, 0)
