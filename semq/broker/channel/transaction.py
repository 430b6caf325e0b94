"""tx.select, commit, rollback: publishes and settlements of one channel that take effect together.

Publishes are checked immediately and routed at the commit (``commit``), where only a service, a full queue or a deleted
exchange can refuse them: then nothing takes effect, and the channel is closed. commit-ok is sent when the store has
saved all changes. Rule: AMQP 0-9-1, class tx; as in RabbitMQ, a rollback does not redeliver.
"""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import Struct

from semq.amqp.errors import AmqpError, InternalError
from semq.amqp.events import Published
from semq.broker import refusals
from semq.broker.channel.ports import ConnectedChannel, UnsettledDelivery
from semq.broker.limits import BrokerLimits
from semq.broker.memory_gauge import MemoryGauge
from semq.broker.queues.bodies import release, retain, weight
from semq.broker.queues.message import Message
from semq.broker.queues.queue import Disposition
from semq.errors import SemqError

TaggedDeliveries = list[tuple[int, UnsettledDelivery]]


class HeldSettlement(Struct):
    """A settlement that waits for the commit."""

    deliveries: TaggedDeliveries
    disposition: Disposition


class HeldPublish(NamedTuple):
    """A publish that waits for the commit; ``message`` is None for a service, which gets the event."""

    event: Published
    message: Message | None


class Transaction:
    """The publishes and settlements of a channel since the last commit or rollback. ``all_transactions`` counts the
    bytes of all open transactions of the broker.
    """

    __slots__ = ("_all_transactions", "_settled", "bytes", "published")

    def __init__(self, all_transactions: MemoryGauge) -> None:
        self.published: list[HeldPublish] = []
        self._settled: list[HeldSettlement] = []
        self._all_transactions = all_transactions
        self.bytes = 0

    def publish(self, event: Published, message: Message | None, limits: BrokerLimits) -> None:
        """Keep a publish for the commit. Raises PreconditionFailed if this transaction, or all open ones together,
        become too large.
        """
        retain(event.body)
        size = weight(event.header, event.body)
        self.bytes += size
        self._all_transactions.add(size)
        self.published.append(HeldPublish(event, message))
        if self.bytes > limits.transaction_bytes or len(self.published) > limits.transaction_count:
            raise refusals.bad_request("the transaction exceeds the limit of this server")
        if self._all_transactions.bytes > limits.transactions_bytes:
            raise refusals.bad_request("all open transactions together exceed the limit of this server")

    def settle(self, deliveries: TaggedDeliveries, disposition: Disposition) -> None:
        self._settled.append(HeldSettlement(deliveries, disposition))

    def take_settlements(self) -> list[HeldSettlement]:
        settled, self._settled = self._settled, []
        return settled

    def take_published(self) -> list[HeldPublish]:
        self._all_transactions.add(-self.bytes)
        published, self.published, self.bytes = self.published, [], 0
        return published

    def roll_back(self) -> TaggedDeliveries:
        """Discard everything; return the settled deliveries, which the caller makes outstanding again."""
        for held in self.take_published():
            release(held.event.body)
        return [tagged for settlement in self.take_settlements() for tagged in settlement.deliveries]


class Commit:
    """A commit in progress: waits for the store and for each service, then resumes the channel or closes it."""

    __slots__ = ("_channel", "_failure", "_waiting", "on_done")

    def __init__(self, channel: ConnectedChannel) -> None:
        self._channel = channel
        self._waiting = 1  # answers awaited: of the store, and of each service (``expect``)
        self._failure: AmqpError | None = None
        self.on_done: Callable[[], None] = lambda: None

    def expect(self) -> None:
        self._waiting += 1

    def fail(self, error: SemqError) -> None:
        """Note that nothing was committed, and expect no more answers."""
        self._waiting = 1
        self.note_answer(error if isinstance(error, AmqpError) else InternalError(str(error)))

    def note_saved(self, error: BaseException | None) -> None:
        self.note_answer(None if error is None else refusals.not_stored(error))

    def note_answer(self, failure: AmqpError | None) -> None:
        """Note one answer; the first failure is reported."""
        self._failure = self._failure or failure
        self._waiting -= 1
        if self._waiting or not self._channel.is_open:  # negative after ``fail``
            return
        if self._failure is not None:
            self._channel.session.fail_channel(self._channel, self._failure)
        else:
            self.on_done()


def nack_error() -> AmqpError:
    """Return the error of a commit if a service did not accept one of its messages."""
    return InternalError("a service of this node could not accept a message of the transaction")
