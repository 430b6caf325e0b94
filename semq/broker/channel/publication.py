"""basic.publish: from the event to the queues or the service, with all checks.

A message for queues is confirmed at the end of the turn; after the commit if it must be stored; at once if no queue has
it. A message for a service is confirmed when the service calls ``settle``.
"""

from semq.amqp.errors import AmqpError
from semq.amqp.events import Published
from semq.amqp.methods import BasicReturn
from semq.broker import refusals
from semq.broker.channel.channel import BrokerChannel
from semq.broker.generated_names import REPLY_TO
from semq.broker.queues.bodies import weight
from semq.broker.queues.deadletter import disowned
from semq.broker.queues.message import Message, needs_name_check
from semq.broker.routing.exchanges import DelayedExchange, Exchange
from semq.broker.services import (
    ArrivingDocument,
    Confirmed,
    OfferedMessage,
    Outcome,
    Refused,
    ReturnedToSender,
    ServiceExchange,
    ServiceNacked,
    Settle,
)
from semq.broker.users import Right
from semq.broker.vhost import PublishResult

NO_ROUTE = 312


def publish(channel: BrokerChannel, event: Published) -> None:
    """Process one published message. Raises AmqpError if it is not permitted."""
    session = channel.session
    session.published += 1
    place = channel.publications.next_number()
    exchange = check_publish(channel, event)
    if needs_name_check(event.header):
        resolve_names(channel, event)
    if channel.transaction is not None:
        channel.transaction.publish(event, _for_transaction(channel, exchange, event), session.limits)
        return
    number = channel.confirms.next_number() if channel.confirms is not None else 0
    if exchange.is_service:
        assert isinstance(exchange, ServiceExchange)
        session.allowance.begin_publish(weight(event.header, event.body))
        channel.unanswered += 1
        settle = Settlement(channel, event, number, place, may_wait=exchange.confirms_later)
        _offer(channel, exchange, event, settle, place)
        return
    outcome = deliver(channel, exchange, event, message_of(exchange, event))
    if outcome.must_be_stored:
        size = weight(event.header, event.body)
        session.allowance.begin_publish(size)
        channel.unanswered += 1
        session.journal.confirm_when_saved(channel, number, size)
    elif number:
        channel.confirm(number, not outcome.is_refused)
        if not outcome.queues:
            channel.write_confirms()  # at once, as in RabbitMQ, if no queue has the message


def _for_transaction(channel: BrokerChannel, exchange: Exchange, event: Published) -> Message | None:
    """Return the message for the queues; None for a service, which gets the event. Raises AmqpError if the message
    cannot be part of a transaction.
    """
    if not isinstance(exchange, ServiceExchange):
        message = message_of(exchange, event)
        channel.session.vhost.check_keys(exchange, message)
        return message
    if not exchange.transacts:
        raise refusals.no_transaction(f"messages to exchange '{exchange.name}' take effect")
    arrived: object = event.body
    if isinstance(arrived, ArrivingDocument):
        arrived.abandon()
        raise refusals.no_transaction(refusals.IN_PIECES)
    return None


def check_publish(channel: BrokerChannel, event: Published) -> Exchange:
    """Check that this user may publish this message; return its exchange. Raises AmqpError."""
    session = channel.session
    if event.immediate:
        raise refusals.not_implemented("immediate=true")
    exchange = session.vhost.find_exchange(event.exchange)
    session.require(Right.WRITE, "exchange", event.exchange)
    if exchange.internal:
        raise refusals.internal_exchange(event.exchange, session.vhost.name)
    if exchange.belongs_to_node:
        text = "only the node publishes to it"
        raise refusals.belongs_to_node("exchange", event.exchange, session.vhost.name, text)
    if exchange.is_service:
        assert isinstance(exchange, ServiceExchange)
        if event.header.body_size > exchange.body_max and not exchange.drains:
            raise refusals.body_too_large(event.header.body_size, exchange.body_max, exchange.name)
    return exchange


def resolve_names(channel: BrokerChannel, event: Published) -> None:
    """Check that the property user-id, if present, names the logged-in user; replace reply-to
    ``amq.rabbitmq.reply-to`` with this channel's address for direct replies. Raises PreconditionFailed.
    """
    header, user = event.header, channel.session.user
    if header.user_id is not None and header.user_id != user:
        raise refusals.bad_request(f"user_id property set to '{header.user_id}' but authenticated user was '{user}'")
    if header.reply_to == REPLY_TO:
        address = channel.session.server.reply_targets.address(channel)
        if channel.reply_consumer is None or address is None:
            raise refusals.bad_request("fast reply consumer does not exist")
        event.header = header.amended(reply_to=address)


def message_of(exchange: Exchange, event: Published) -> Message:
    """Return the message for the queues. Raises AmqpError for a header that is not valid."""
    if isinstance(exchange, DelayedExchange):
        exchange.check(event.header.headers or {})
    return Message(event.exchange, event.routing_key, disowned(event.header), event.body)


def deliver(channel: BrokerChannel, exchange: Exchange, event: Published, message: Message) -> PublishResult:
    """Put a message into its queues, or send it as a direct reply; return it to the publisher if it is mandatory,
    reaches neither and was not refused.
    """
    outcome = channel.session.vhost.publish(exchange, message, event.mandatory)
    if event.mandatory and not (outcome.queues or outcome.is_refused):
        send_return(channel, event, NO_ROUTE, "NO_ROUTE")
    return outcome


def send_return(channel: BrokerChannel, event: Published, code: int, text: str) -> None:
    """Send basic.return."""
    channel.send_content(BasicReturn(code, text, event.exchange, event.routing_key), event.header, event.body)


class Settlement:
    """The ``settle`` callback of one publish to a service."""

    __slots__ = ("_channel", "_event", "_may_wait", "_number", "_place", "_size")

    def __init__(
        self, channel: BrokerChannel, event: Published, number: int, place: int, *, may_wait: bool = False
    ) -> None:
        """``number``: of the confirm, 0 for none. ``place``: in the publications of the channel. ``may_wait``: whether
        the confirm may wait for other output."""
        self._channel = channel
        self._may_wait = may_wait
        self._number = number
        self._place = place
        self._size = weight(event.header, event.body)
        self._event: Published | None = event

    def __call__(self, outcome: Outcome) -> None:
        channel, event, self._event = self._channel, self._event, None
        if event is None:
            raise RuntimeError("a service settled the same message twice")
        channel.session.allowance.end_publish(self._size)
        if channel.is_open:
            self._report(channel, event, outcome)
        channel.note_outcome()

    def _report(self, channel: BrokerChannel, event: Published, outcome: Outcome) -> None:
        match outcome:
            case Confirmed():
                channel.confirm(self._number, True, may_wait=self._may_wait)
            case ServiceNacked(error=error) if error is not None and not self._number:
                self._close(channel, error)
            case ServiceNacked():
                channel.confirm(self._number, False)
            case ReturnedToSender(reply_code=code, reply_text=text):
                if event.mandatory:
                    send_return(channel, event, code, text)
                channel.confirm(self._number, True)
            case Refused(error=error):
                self._close(channel, error)

    def _close(self, channel: BrokerChannel, error: AmqpError) -> None:
        channel.publications.refuse(self._place)
        channel.session.fail_channel(channel, refusals.of_message(error).at(60, 40))


def offered(
    channel: BrokerChannel, exchange: ServiceExchange, event: Published, settle: Settle, place: int = 0
) -> OfferedMessage:
    """Return a message as its service gets it."""
    # Only a service that ``drains`` gets a message larger than ``body_max`` (``check_publish``): without its body.
    body = event.body if event.header.body_size <= exchange.body_max else b""
    arrived: object = event.body  # declared as bytes; ``arrival`` puts an ArrivingDocument here
    document = arrived if isinstance(arrived, ArrivingDocument) else None
    body = b"" if document is not None else body
    publications = channel.publications if place else None
    return OfferedMessage(
        channel.session.info,
        event.routing_key,
        event.header,
        body,
        event.mandatory,
        settle,
        document,
        publications,
        place,
    )


def _offer(channel: BrokerChannel, exchange: ServiceExchange, event: Published, settle: Settle, place: int) -> None:
    try:
        exchange.publish(offered(channel, exchange, event, settle, place))
    except AmqpError as error:
        settle(Refused(refusals.of_message(error)))
