"""Queue ``semq.inbox`` (and ``semq.inbox.<user>``): received documents, with manual acknowledgements.

An ack marks a document as processed (app_status DONE). A reject without requeue parks it for an operator. A requeued
document, and each document of a lost connection, is delivered again.
"""

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any

import structlog

from local_node.doors.inbox_consumers import InboxConsumers
from local_node.doors.properties import restored
from local_node.doors.user_presence import UserPresence
from local_node.pieces.assembly import Assembly, JoinedDelivery
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.amqp.wire import encode_fields, long_string
from semq.broker import refusals
from semq.broker.arguments import QueueSettings
from semq.broker.definitions import AnyQueue
from semq.broker.queues.bodies import Body
from semq.broker.queues.queue import Disposition
from semq.broker.services import ServiceConsumer, ServiceDelivery, ServiceGetter, ServiceQueue, SessionInfo
from semq.engine.errors import HeaderExceedsFrame
from semq.engine.local_engine import LocalEngine
from semq.engine.ports import Delivery
from semq.engine.receiver.answers import ActReport
from semq.errors import Unavailable
from semq.service.access import INBOX, inbox_name
from semq.service.engine_handle import EngineHandle
from semq.transport.turn import Turn
from semq.umx_t.attributes import ATTRIBUTES, header_writer
from semq.umx_t.pieces import PIECES_USER

log = structlog.get_logger("semq.inbox")
FRESH_S = 1.0
COUNT_MAX = 10_000

Report = Callable[[int], None]  # gets the number of waiting documents


class Backlog:
    """The number of waiting documents of one inbox, counted on demand, at most once a second for basic.get.

    Between two counts, deliveries are subtracted; arrivals appear at the next count. Counting uses an index, does not
    pass through the writer, and ends at ``COUNT_MAX``: the number is for display and for clients that poll.
    """

    def __init__(
        self, count: Callable[[int], Awaitable[int]], unacknowledged: Callable[[], int], now: Callable[[], float]
    ) -> None:
        """``count(at_most)`` counts the rows in the store, unacknowledged deliveries included;
        ``unacknowledged`` counts these deliveries.
        """
        self._count = count
        self._unacknowledged = unacknowledged
        self._now = now
        self._waiting = 0
        self._counted_at = float("-inf")
        self._reports: list[Report] = []
        self._counting: asyncio.Task[None] | None = None

    def subtract_delivered(self) -> None:
        self._waiting = max(self._waiting - 1, 0)

    def report(self, report: Report) -> None:
        """Report the number of waiting documents; count again if the last count is older than FRESH_S."""
        if self._now() - self._counted_at < FRESH_S:
            report(self._waiting)
        else:
            self.count_and_report(report)

    def count_and_report(self, report: Report) -> None:
        """Report the number of waiting documents, from a count that is under way or from a new one."""
        self._reports.append(report)
        if self._counting is None:
            self._counting = asyncio.get_running_loop().create_task(self._refresh())

    async def _refresh(self) -> None:
        try:
            rows = await self._count(COUNT_MAX + self._unacknowledged())
            self._waiting, self._counted_at = max(rows - self._unacknowledged(), 0), self._now()
        except Unavailable as error:  # report the last known number
            log.warning("not_counted", error=str(error))
        except Exception:  # a count that has failed must not leave the callers without a report
            log.exception("not_counted")
        self._counting = None
        reports, self._reports = self._reports, []
        for report in reports:
            report(self._waiting)


USER = re.compile(r"[A-Za-z0-9_-]{1,64}")  # as in an address
USERS_MAX = 10_000
PERSISTENT = 2
CHECKS_MAX = 10  # after so many checks, basic.get is answered as empty, even if the search for documents continues

_write_headers = header_writer((row for row in ATTRIBUTES if row.is_for_receiver), for_receiver=True)

NO_LIMIT = "documents wait without a limit, and none is dropped"
REJECTED = "a rejected document is parked (semq failed list)"

Count = Callable[[str, int], Awaitable[int]]  # (user, maximum) -> number of the user's waiting documents in the store
Deliver = Callable[[ServiceDelivery], None]


class InboxQueue(ServiceQueue):
    """The queue of one user. Of the arguments of queue.declare it has x-single-active-consumer."""

    supported = frozenset({"x-single-active-consumer"})
    refused = {  # noqa: RUF012 - never changed
        "x-message-ttl": "a document expires at its @ExpiresAt only",
        "x-expires": "the queue is never deleted",
        "x-max-length": NO_LIMIT,
        "x-max-length-bytes": NO_LIMIT,
        "x-overflow": NO_LIMIT,
        "x-max-priority": "documents have the priorities of their senders",
        "x-dead-letter-exchange": REJECTED,
        "x-dead-letter-routing-key": REJECTED,
        "x-dead-letter-strategy": REJECTED,
        "x-delivery-limit": "a document is parked after protocol.deliveries_max deliveries",
        "x-consumer-timeout": "a document stays with its consumer until that answers or its channel ends",
    }

    def __init__(
        self,
        user: str,
        engine: EngineHandle[LocalEngine],
        turn: Turn,
        count: Count,
        assembly: Assembly,
        changed: Callable[[], None],
    ) -> None:
        """``changed`` is called when a consumer comes or goes."""
        super().__init__(inbox_name(user))
        self._changed = changed
        self.user = user
        self._engine = engine
        self._turn = turn
        self._consumers = InboxConsumers()
        self._undelivered: deque[Delivery] = deque()  #: documents that wait for a consumer with credit
        self._getters: deque[ServiceGetter] = deque()
        self._backlog = Backlog(
            lambda at_most: count(user, at_most), self._count_unacknowledged, lambda: engine.current.core.now()
        )
        self._is_feed_planned = False  #: ``_feed`` runs at the end of this turn
        self._is_checking = False  #: ``_check_again`` is called after the next commit
        self._checks = 0  #: since the last basic.get
        self._assembly = assembly
        self._joining = 0  #: documents whose pieces are being found
        self._is_settling = False  #: acks or rejects wait for their commit; more documents may be available after it

    @property
    def has_consumer(self) -> bool:
        return bool(self._consumers)

    # --- for the engine
    def free(self) -> int:
        """Return the number of documents that the engine may give now; 0 while documents in memory wait."""
        if self._undelivered:
            return 0
        credit = self._consumers.credit + sum(getter.is_waiting for getter in self._getters)
        return max(credit - self._joining, 0)

    def give(self, delivery: Delivery) -> None:
        """Deliver a document to a pending basic.get or to the next consumer with credit; without either, keep it.

        Park it if it fits into the frames of none of these clients.
        """
        if self._assembly.is_needed(delivery):
            self._joining += 1
            self._assembly.join(delivery, self._give_joined, self._note_not_joined)
            return
        message: ServiceDelivery | None = None
        for client, deliver in self._free_clients():
            if message is None:
                message = document_message(delivery)
            if client.fits(message.header):
                deliver(message)
                return
        if message is None:
            self._undelivered.append(delivery)
        else:
            self._park(delivery, message.header)

    def _free_clients(self) -> Iterator[tuple[ServiceGetter | ServiceConsumer, Deliver]]:
        """Yield the pending basic.gets, and the consumers with credit in turn, each with the function that delivers."""
        self._getters = deque(getter for getter in self._getters if getter.is_waiting)
        for getter in tuple(self._getters):
            yield getter, partial(self._answer, getter)
        for consumer in self._consumers.in_turn():
            yield consumer, partial(self._deliver, consumer)

    def _park(self, delivery: Delivery, header: ContentHeader) -> None:
        self._assembly.forget([delivery.bref])
        self._engine.current.answers.fail([delivery.bref], str(HeaderExceedsFrame(header=len(header.raw))))
        self._is_settling = True
        self._backlog.subtract_delivered()
        self._feed_soon()

    def _give_joined(self, delivery: Delivery) -> None:
        self._joining -= 1
        self.give(delivery)

    def _note_not_joined(self) -> None:
        self._joining -= 1
        self._feed_soon()

    # --- for the broker
    @property
    def settings(self) -> QueueSettings:
        return QueueSettings(single_active_consumer=self._consumers.has_single_active)

    def may_change(self) -> bool:
        return not self._consumers

    def change(self, settings: QueueSettings) -> None:
        self._consumers.has_single_active = settings.single_active_consumer

    def may_attach(self, session: SessionInfo, exclusive: bool) -> AmqpError | None:
        return None if self._consumers.may_add(exclusive) else refusals.exclusive_use(self.name, session.vhost)

    def attach(self, consumer: ServiceConsumer) -> None:
        self._consumers.add(consumer)
        self._changed()
        self._feed_soon()

    def detach(self, consumer: ServiceConsumer) -> None:
        self._consumers.remove(consumer)
        self._changed()
        if not self._consumers and self._undelivered:
            undelivered, self._undelivered = [delivery.bref for delivery in self._undelivered], deque()
            self._assembly.forget(undelivered)
            self._engine.current.answers.take_back(undelivered)
        self._feed_soon()  # another consumer may be active now

    def resume(self, consumer: ServiceConsumer) -> None:
        self._feed_soon()

    def settled(self, consumer: ServiceConsumer | None, tokens: list[Any], disposition: Disposition) -> None:
        answers = self._engine.current.answers
        self._is_settling = True
        if disposition is Disposition.ACK:
            answers.finish(self._assembly.take_with_pieces(tokens))
        elif disposition is Disposition.REJECT:
            self._assembly.forget(tokens)
            answers.fail(tokens, "rejected by the application")
        else:
            self._assembly.forget(tokens)
            answers.give_back(tokens)
        self._feed_soon()

    def get(self, getter: ServiceGetter) -> None:
        self._getters.append(getter)
        while self._getters and (delivery := self._next_undelivered()) is not None:
            self.give(delivery)
        if getter not in self._getters:
            return
        self._checks = 0
        self._engine.current.handover.feed(self.user)
        self._check()

    def counts(self, answer: Callable[[int, int], None]) -> None:
        self._backlog.count_and_report(lambda waiting: answer(waiting + len(self._undelivered), len(self._consumers)))

    # --- inside
    def begin(self) -> None:
        """Continue with a new engine."""
        self._engine.current.handover.feed(self.user)
        self._is_checking = False
        self._check()

    def _check(self) -> None:
        """Answer pending basic.gets as empty. While a document may come, check again after the next commit instead."""
        if self._is_checking or not self._getters:
            return
        handover = self._engine.current.handover
        self._checks += 1
        may_come = self._is_settling or (handover.is_searching and self._checks <= CHECKS_MAX)
        if may_come or handover.is_feeding(self.user):
            self._is_checking, self._is_settling = True, False
            self._engine.current.answers.when_committed(ActReport(lambda _: self._check_again(), self._check_failed))
        else:
            self._answer_empty()

    def _check_again(self) -> None:
        self._is_checking = False
        self._check()

    def _check_failed(self, error: Exception) -> None:
        self._is_checking = False
        if not isinstance(error, Unavailable):  # otherwise ``begin`` checks again, with the next engine
            self._answer_empty()

    def _answer_empty(self) -> None:
        getters, self._getters = self._getters, deque()
        for getter in getters:
            getter.answer(None, 0)

    def _answer(self, getter: ServiceGetter, message: ServiceDelivery) -> None:
        self._getters.remove(getter)
        self._backlog.subtract_delivered()
        self._backlog.report(lambda waiting: getter.answer(message, waiting + len(self._undelivered)))

    def _deliver(self, consumer: ServiceConsumer, message: ServiceDelivery) -> None:
        consumer.deliver(
            message.exchange, message.routing_key, message.header, message.body, message.redelivered, message.token
        )
        self._backlog.subtract_delivered()

    def _count_unacknowledged(self) -> int:
        return sum(user == self.user for user in self._engine.current.handover.out.values())

    def _next_undelivered(self) -> Delivery | None:
        while self._undelivered:
            delivery = self._undelivered.popleft()
            # A document that the engine no longer counts as given out has ended, or will be delivered again.
            if delivery.bref in self._engine.current.handover.out:
                return delivery
        return None

    def _feed_soon(self) -> None:
        if not self._is_feed_planned:
            self._is_feed_planned = True
            self._turn.before_flush(self._feed)

    def _feed(self) -> None:
        self._is_feed_planned = False
        while self._undelivered and self._consumers.credit > 0:
            delivery = self._next_undelivered()
            if delivery is None:
                break
            self.give(delivery)
        self._engine.current.handover.feed(self.user)


class Inboxes:
    """The engine's ``Inbox``: a queue for each user of the node, created on first use."""

    def __init__(
        self,
        engine: EngineHandle[LocalEngine],
        turn: Turn,
        count: Count,
        assembly: Assembly,
    ) -> None:
        self.presence = UserPresence(engine, self.users_present)
        self._assembly = assembly
        self.queues: dict[str, InboxQueue] = {}
        self._engine = engine
        self._turn = turn
        self._count = count

    def queue(self, user: str) -> InboxQueue:
        queue = self.queues.get(user)
        if queue is None:
            queue = self.queues[user] = InboxQueue(
                user, self._engine, self._turn, self._count, self._assembly, self.presence.note_change
            )
        return queue

    def users_present(self) -> list[str]:
        """Return the users with a consumer, sorted. The inbox of the institution itself does not count."""
        return sorted(user for user, queue in self.queues.items() if user and queue.has_consumer)

    def named(self, name: str) -> InboxQueue | None:
        """Return the inbox whose queue has this name. None: there is no such inbox, or USERS_MAX forbids a new one."""
        user = name.removeprefix(f"{INBOX}.")
        if name != INBOX and (user in (name, PIECES_USER) or USER.fullmatch(user) is None):
            return None
        if name == INBOX:
            user = ""
        if user not in self.queues and len(self.queues) >= USERS_MAX:
            return None
        return self.queue(user)

    def free(self, user: str) -> int:
        queue = self.queues.get(user)
        return queue.free() if queue is not None else 0

    def give(self, user: str, delivery: Delivery) -> None:
        self.queues[user].give(delivery)


class QueuesWithInboxes(dict[str, AnyQueue]):
    """The queues of a virtual host, by name. An inbox is added at its first look-up."""

    def __init__(self, queues: Mapping[str, AnyQueue], inboxes: Inboxes) -> None:
        super().__init__(queues)
        self._inboxes = inboxes

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self.get(name) is not None)

    def get(self, name: str, default: object = None) -> Any:
        queue = super().get(name)
        if queue is None and (queue := self._inboxes.named(name)) is not None:
            self[name] = queue
        return default if queue is None else queue


def document_message(delivery: Delivery) -> ServiceDelivery:
    """Return a document as an AMQP message."""
    envelope, attributes = delivery.envelope, delivery.envelope.attributes
    headers: dict[str, Any] = {
        "@LK0": envelope.ident,
        "@Source": f"{envelope.lk0.node}/{envelope.sender}" if envelope.sender else str(envelope.lk0.node),
        "@Deliveries": delivery.deliveries,
    }
    _write_headers(envelope, headers)
    properties = Properties(
        headers=long_string(encode_fields(headers) + attributes.user_headers),
        content_type=attributes.content_type or None,
        content_encoding=attributes.content_encoding or None,
        delivery_mode=PERSISTENT,
        priority=attributes.priority or None,
        message_id=envelope.ident,
        timestamp=envelope.submitted_at // 1000,
        app_id=str(envelope.lk0.node),
        **(restored(attributes.user_headers) if attributes.user_headers else {}),
    )
    body: Body = delivery.body if isinstance(delivery, JoinedDelivery) else delivery.payload
    header, target = ContentHeader.build(len(body), properties), str(envelope.target)
    return ServiceDelivery("semq", target, header, body, delivery.redelivered, delivery.bref)
