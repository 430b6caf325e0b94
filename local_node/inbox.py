"""Queue ``semq.inbox`` (and ``semq.inbox.<user>``): received documents, for consumers in any language.

Acknowledged by hand.

An ack means that the application has the document for good (tb_0030 app_status DONE); a requeue gives it again,
flagged; a reject without requeue parks it for a person. A lost connection gives back what it had.
"""

import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from local_node.properties import restored
from semq.amqp.content import ContentHeader, Properties
from semq.broker.definitions import AnyQueue
from semq.broker.queue import Disposition
from semq.broker.services import ServiceConsumer, ServiceDelivery, ServiceQueue, SessionInfo
from semq.engine.local import LocalEngine
from semq.engine.ports import Delivery
from semq.service.access import INBOX, inbox_name
from semq.transport.turn import Turn

USER = re.compile(r"[A-Za-z0-9_-]{1,64}")  # as in an address
USERS_MAX = 10_000
PERSISTENT = 2


class InboxQueue(ServiceQueue):
    """The consumers of one user, fed fairly: the one with credit that has waited longest is next."""

    def __init__(self, user: str, engine: Callable[[], LocalEngine], turn: Turn) -> None:
        super().__init__(inbox_name(user))
        self.user = user
        self._engine = engine
        self._turn = turn
        self._consumers: deque[ServiceConsumer] = deque()
        self._early: deque[Delivery] = deque()  #: given when no consumer had credit any more
        self._feeding = False

    # --- for the engine
    def free(self) -> int:
        """How many documents the consumers can take now."""
        return max(sum(consumer.credit for consumer in self._consumers) - len(self._early), 0)

    def give(self, delivery: Delivery) -> None:
        """Hand a document to the next consumer that can take it."""
        for _ in range(len(self._consumers)):
            consumer = self._consumers[0]
            self._consumers.rotate(-1)
            if consumer.credit > 0:
                header, body = present(delivery)
                consumer.deliver(
                    "semq", str(delivery.envelope.target), header, body, delivery.redelivered, delivery.bref
                )
                return
        self._early.append(delivery)

    # --- for the broker
    def attach(self, consumer: ServiceConsumer) -> None:
        self._consumers.append(consumer)
        self._feed_soon()

    def detach(self, consumer: ServiceConsumer) -> None:
        self._consumers.remove(consumer)
        if not self._consumers and self._early:
            early, self._early = self._early, deque()
            self._engine().handing.give_back([delivery.bref for delivery in early])

    def wake(self, consumer: ServiceConsumer) -> None:
        self._feed_soon()

    def settled(self, consumer: ServiceConsumer | None, tokens: list[Any], disposition: Disposition) -> None:
        handing = self._engine().handing
        if disposition is Disposition.ACK:
            handing.finish(tokens)
        elif disposition is Disposition.REJECT:
            handing.fail(tokens, "rejected by the application")
        else:
            handing.give_back(tokens)
        self._feed_soon()

    def get(self, session: SessionInfo) -> ServiceDelivery | None:
        return None

    def counts(self) -> tuple[int, int]:
        return len(self._early), len(self._consumers)

    def _feed_soon(self) -> None:
        if not self._feeding:
            self._feeding = True
            self._turn.before_flush(self._feed)

    def _feed(self) -> None:
        self._feeding = False
        while self._early and any(consumer.credit > 0 for consumer in self._consumers):
            self.give(self._early.popleft())
        self._engine().handing.feed(self.user)


class Inboxes:
    """The engine's ``Inbox``: one queue for each user of the node, made when somebody asks for it."""

    def __init__(self, engine: Callable[[], LocalEngine], turn: Turn) -> None:
        self.queues: dict[str, InboxQueue] = {}
        self._engine = engine
        self._turn = turn

    def queue(self, user: str) -> InboxQueue:
        """The queue of a user."""
        found = self.queues.get(user)
        if found is None:
            found = self.queues[user] = InboxQueue(user, self._engine, self._turn)
        return found

    def named(self, name: str) -> InboxQueue | None:
        """The queue of that name; None if it is no name of an inbox, or of more inboxes than a node has users."""
        user = name.removeprefix(f"{INBOX}.")
        if name != INBOX and (user == name or USER.fullmatch(user) is None):
            return None
        known = self.queues.get("" if name == INBOX else user)
        if known is None and len(self.queues) < USERS_MAX:
            known = self.queue("" if name == INBOX else user)
        return known

    def free(self, user: str) -> int:
        """How many documents the consumers of this user can take now."""
        queue = self.queues.get(user)
        return queue.free() if queue is not None else 0

    def give(self, user: str, delivery: Delivery) -> None:
        """Hand over a document."""
        self.queues[user].give(delivery)


class QueuesWithInboxes(dict[str, AnyQueue]):
    """The queues of a virtual host, in which every inbox is there as soon as somebody names it."""

    def __init__(self, queues: Mapping[str, AnyQueue], inboxes: Inboxes) -> None:
        super().__init__(queues)
        self._inboxes = inboxes

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and self.get(name) is not None)

    def get(self, name: str, default: Any = None) -> Any:
        found = super().get(name)
        if found is None and (found := self._inboxes.named(name)) is not None:
            self[name] = found
        return default if found is None else found


def present(delivery: Delivery) -> tuple[ContentHeader, bytes]:
    """A document as an application sees it: its attributes as headers, its payload as body."""
    envelope, a = delivery.envelope, delivery.envelope.attributes
    headers: dict[str, Any] = {
        **a.user_headers,
        "@LK0": envelope.ident,
        "@Source": f"{envelope.lk0.node}/{envelope.sender}" if envelope.sender else str(envelope.lk0.node),
        "@SaveFwd": int(a.save_fwd),
        "@Deliveries": delivery.deliveries,
        "@SubmittedAt": envelope.submitted_at,
        "@Digest": envelope.digest.hex(),
    }
    if any(a.app_key):
        headers["@AppKey"] = "/".join(a.app_key)
    if a.order_key:
        headers["@OrderKey"] = a.order_key
    properties = Properties(
        headers=headers,
        content_type=a.content_type or None,
        content_encoding=a.content_encoding or None,
        delivery_mode=PERSISTENT,
        priority=a.priority or None,
        message_id=envelope.ident,
        timestamp=envelope.submitted_at // 1000,
        app_id=str(envelope.lk0.node),
        **(restored(a.user_headers) if a.user_headers else {}),
    )
    return ContentHeader.build(len(delivery.payload), properties), delivery.payload
