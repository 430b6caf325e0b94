"""tx.commit: everything in a transaction takes effect, or nothing does.

Messages are routed and checked first: a missing exchange or a full queue that refuses a message ends the commit. Then
the store writes in one transaction of its own: the rows of the messages, the deletion of acknowledged messages,
documents for services and acknowledgements of theirs. Only after that the queues have the messages. What the
transaction rejects or returns to queues of clients follows then, because it is not lost with a crash: it is delivered
again.
"""

from semq.amqp.errors import AmqpError
from semq.amqp.events import Published
from semq.broker.channel.channel import BrokerChannel, runs
from semq.broker.channel.publication import NO_ROUTE, offered, send_return
from semq.broker.channel.transaction import Commit, TaggedDeliveries, nack_error
from semq.broker.queues.bodies import release
from semq.broker.queues.message import Message
from semq.broker.queues.queue import Disposition, Queue
from semq.broker.routing.exchanges import Exchange
from semq.broker.services import (
    Confirmed,
    OfferedMessage,
    Outcome,
    Refused,
    ReturnedToSender,
    ServiceExchange,
    ServiceNacked,
    ServiceQueue,
)
from semq.errors import SemqError
from semq.store.broker.operations import DropMessages, StoreOp


class CommitSettlement:
    """The ``settle`` callback of one publish in a transaction."""

    __slots__ = ("_channel", "_commit", "_event")

    def __init__(self, channel: BrokerChannel, event: Published, commit: Commit) -> None:
        self._channel = channel
        self._event = event
        self._commit = commit

    def __call__(self, outcome: Outcome) -> None:
        failure: AmqpError | None = None
        match outcome:
            case ServiceNacked(error=error):
                failure = error or nack_error()
            case Refused(error=error):
                failure = error
            case ReturnedToSender(reply_code=code, reply_text=text):
                if self._channel.is_open and self._event.mandatory:
                    send_return(self._channel, self._event, code, text)
            case Confirmed():
                pass
        self._commit.note_answer(failure)


class CommitInProgress:
    """The parts of a transaction during its commit."""

    __slots__ = ("_channel", "_pending", "_prepared", "_published", "_settlements", "_unrouted", "_vhost")

    def __init__(self, channel: BrokerChannel, pending: Commit) -> None:
        """``pending`` gets the answers of the store and of the services."""
        assert channel.transaction is not None
        self._channel = channel
        self._pending = pending
        self._vhost = channel.session.vhost
        self._published = channel.transaction.take_published()
        self._settlements = channel.transaction.take_settlements()
        self._prepared = self._vhost.prepare_nothing()
        self._unrouted: list[tuple[Exchange, Published, Message]] = []

    def start(self) -> None:
        try:
            self._channel.session.journal.save_whole(self._post, self._note_saved)
        except SemqError as error:
            self._end_publishes()
            self._restore([tagged for settlement in self._settlements for tagged in settlement.deliveries])
            self._pending.fail(error)

    def _post(self) -> list[StoreOp]:
        """Pass everything to the services; return the operations for the queues. Raises AmqpError."""
        for_services: dict[ServiceExchange, list[OfferedMessage]] = {}
        for event, message in self._published:
            exchange = self._vhost.find_exchange(event.exchange)
            if isinstance(exchange, ServiceExchange):
                self._pending.expect()
                settle = CommitSettlement(self._channel, event, self._pending)
                for_services.setdefault(exchange, []).append(offered(self._channel, exchange, event, settle))
            elif message is not None and not self._vhost.prepare(self._prepared, exchange, message):
                self._unrouted.append((exchange, event, message))
        for exchange, messages in for_services.items():
            exchange.publish_whole(messages)
        return [*self._prepared.ops, *self._settle()]

    def _settle(self) -> list[StoreOp]:
        """Pass settlements to the services; return the operations for acknowledged messages of queues."""
        ops: list[StoreOp] = []
        for settlement in self._settlements:
            for source, consumer, items in runs([delivery for _, delivery in settlement.deliveries]):
                if isinstance(source, ServiceQueue):
                    source.settled(consumer, items, settlement.disposition)
                elif settlement.disposition is Disposition.ACK and not source.is_deleted:
                    positions = [entry.position for entry in items if entry.is_stored]
                    ops += [DropMessages(source.queue_id, positions)] if positions else []
        return ops

    def _note_saved(self, error: BaseException | None) -> None:
        if error is None:
            self._take_effect()
        else:
            self._end_publishes()
        for settlement in self._settlements:
            of_queues = [tagged for tagged in settlement.deliveries if isinstance(tagged[1].source, Queue)]
            of_services = [each for _, each in settlement.deliveries if not isinstance(each.source, Queue)]
            self._channel.apply(of_services, None)
            if error is not None:
                self._restore(of_queues)
                continue
            if settlement.disposition is Disposition.ACK:
                for entry in (delivery.item for _, delivery in of_queues):
                    entry.is_stored = False  # the row is deleted already
            self._channel.apply([delivery for _, delivery in of_queues], settlement.disposition)
        self._vhost.route_dead_letters()
        self._pending.note_saved(error)

    def _take_effect(self) -> None:
        self._prepared.commit()
        for exchange, event, message in self._unrouted:
            is_sent = self._vhost.publish_nowhere(exchange, message, event.mandatory)
            if event.mandatory and not is_sent and self._channel.is_open:
                send_return(self._channel, event, NO_ROUTE, "NO_ROUTE")
        self._release()

    def _end_publishes(self) -> None:
        self._prepared.abandon()
        self._release()

    def _release(self) -> None:
        for event, _ in self._published:
            release(event.body)

    def _restore(self, deliveries: TaggedDeliveries) -> None:
        """Make settled deliveries outstanding again: they return to their queues when the channel ends."""
        self._channel.restore_unacked(deliveries)
        if not self._channel.is_open:
            self._channel.requeue_unacked()
