"""The objects that the queues of a virtual host share."""

from collections.abc import Callable
from enum import Enum
from typing import Any

from semq.broker.departures import Departures
from semq.broker.durable.journal import Journal
from semq.broker.long_tasks import LongTasks
from semq.broker.memory_gauge import MemoryGauge
from semq.broker.queues.message import Message, QueueEntry
from semq.broker.queues.pages import Pager
from semq.broker.timers import Timers
from semq.clock import Clock


class DeathReason(Enum):
    """The reason why a message left its queue without acknowledgement, in the terms of the x-death header."""

    REJECTED = "rejected"
    EXPIRED = "expired"
    MAXLEN = "maxlen"
    DELIVERY_LIMIT = "delivery_limit"


class Environment:
    """The objects that all queues of a virtual host share. ``on_dead`` and ``on_unused`` get the queue as first
    argument.
    """

    __slots__ = (
        "clock",
        "departures",
        "journal",
        "long_tasks",
        "memory",
        "on_changed",
        "on_dead",
        "on_unused",
        "pager",
        "timers",
    )

    def __init__(
        self,
        clock: Clock,
        timers: Timers,
        journal: Journal,
        memory: MemoryGauge,
        long_tasks: LongTasks | None = None,
        pager: Pager | None = None,
        vhost: str = "/",
    ) -> None:
        self.clock = clock
        self.departures = Departures(vhost, clock, timers)
        self.timers = timers
        self.journal = journal
        self.memory = memory
        self.long_tasks = LongTasks() if long_tasks is None else long_tasks  # an empty LongTasks is false
        self.pager = pager  # None: all messages stay in memory
        self.on_changed: Callable[[], None] = lambda: None  # a queue has changed without a request of a client
        self.on_dead: Callable[[object, Message, DeathReason, QueueEntry | None], None] = lambda *_: None
        self.on_unused: Callable[[object], None] = lambda _: None

    def report_to(
        self,
        dead: Callable[[Any, Message, DeathReason, QueueEntry | None], None],
        unused: Callable[[Any], None],
        changed: Callable[[], None],
    ) -> None:
        self.on_dead, self.on_unused, self.on_changed = dead, unused, changed
