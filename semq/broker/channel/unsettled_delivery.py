"""A delivery that its client has not settled: a row of a channel's table of outstanding deliveries."""

from typing import Any

from semq.broker.channel.ports import ChannelConsumer, Source


class UnsettledDelivery:
    """An unsettled delivery. ``consumer`` is None for basic.get."""

    __slots__ = ("consumer", "item", "size", "source")

    def __init__(self, source: Source, consumer: ChannelConsumer | None, item: Any, size: int) -> None:
        self.source = source
        self.consumer = consumer
        self.item = item
        self.size = size
