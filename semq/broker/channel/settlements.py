"""Settlements of service queues, passed to their services in batches."""

from typing import Protocol, TypeAlias

from semq.broker.queues.queue import Disposition
from semq.broker.services import ServiceConsumer, ServiceQueue
from semq.transport.turn import Turn


class SettlingConsumer(ServiceConsumer, Protocol):
    """A consumer of a service queue, as ``Settlements`` uses it."""

    is_set_aside: bool

    @property
    def is_attached(self) -> bool: ...


_Key: TypeAlias = tuple[ServiceQueue, SettlingConsumer | None, Disposition]


class Settlements:
    """The tokens of settled deliveries, grouped by service queue, consumer and disposition."""

    __slots__ = ("_tokens", "_turn")

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._tokens: dict[_Key, list[object]] = {}

    def add(
        self, source: ServiceQueue, consumer: SettlingConsumer | None, token: object, disposition: Disposition
    ) -> None:
        """Add a settlement for the next ``flush``, which is at the end of this turn at the latest."""
        key = source, consumer, disposition
        tokens = self._tokens.get(key)
        if tokens is None:
            tokens = self._tokens[key] = []
            self._turn.before_flush(self.flush)
        tokens.append(token)

    def flush(self) -> None:
        """Pass the settlements to the services, then resume the consumers."""
        while self._tokens:
            gathered, self._tokens = self._tokens, {}
            for (source, consumer, disposition), tokens in gathered.items():
                source.settled(consumer, tokens, disposition)
            for source, consumer, _ in gathered:
                if consumer is not None and consumer.is_attached:
                    consumer.is_set_aside = False
                    source.resume(consumer)
