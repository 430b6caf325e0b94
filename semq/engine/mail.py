"""Outgoing records. The records of one turn with the same target and kind share packets of bounded size."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import FULL_PACKET_BYTES, record_size

PacketKind = tuple[Address, Function, Primitive]


class Mail:
    """Collects records until ``flush``; calls ``on_first`` for the first record after each ``flush``."""

    def __init__(self, source: Address, records_max: int, on_first: Callable[[], None]) -> None:
        self._source = source
        self._records_max = records_max
        self._on_first = on_first
        self._waiting: dict[PacketKind, list[Any]] = {}

    def add(self, target: Address, function: Function, primitive: Primitive, record: Any) -> None:
        """Put a record into the next packet for ``target``."""
        if not self._waiting:
            self._on_first()
        self._waiting.setdefault((target, function, primitive), []).append(record)

    def schedule_flush(self) -> None:
        """Call ``on_first`` for other work that waits for the end of the turn."""
        self._on_first()

    def flush(self) -> list[Packet]:
        """Return all waiting records as packets of bounded size: one after the other for each target and kind."""
        waiting, self._waiting = self._waiting, {}
        return [
            Packet(self._source, target, function, primitive, part)
            for (target, function, primitive), records in waiting.items()
            for part in self._parts(records)
        ]

    def _parts(self, records: Sequence[Any]) -> Iterator[list[Any]]:
        part: list[Any] = []
        size = 0
        for record in records:
            part.append(record)
            size += record_size(record)
            if len(part) >= self._records_max or size >= FULL_PACKET_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part
