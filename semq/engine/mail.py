"""Outgoing records. The records of one turn with the same target and kind share packets of bounded size.

A record for which no peer waits leaves with later ones, after MAIL_LATER_S at the latest: a packet of its own would
wake each node on its way.
"""

from collections.abc import Callable, Iterator, Sequence

from semq.store.work import LATER_S
from semq.umx_t.address import Address
from semq.umx_t.envelope import Function, Packet, Primitive
from semq.umx_t.records import FULL_PACKET_BYTES, Record, record_size

MAIL_LATER_S = LATER_S / 2  # the receiver can note the record in a commit that waits LATER_S for more work
PacketKind = tuple[Address, Function, Primitive]


class Mail:
    """Collects records until ``flush``."""

    def __init__(self, source: Address, records_max: int, on_first: Callable[[bool], None]) -> None:
        """``on_first`` is called for the first record after each ``flush``. Its argument says whether the record may
        wait; if so, it is called again for the first one that may not."""
        self._source = source
        self._records_max = records_max
        self._on_first = on_first
        self._waiting: dict[PacketKind, list[Record]] = {}
        self._is_due = False

    def add(
        self, target: Address, function: Function, primitive: Primitive, record: Record, *, later: bool = False
    ) -> None:
        """Put a record into the next packet for ``target``. ``later``: it may wait MAIL_LATER_S for other records."""
        if not self._waiting or not (later or self._is_due):
            self._is_due = not later
            self._on_first(later)
        self._waiting.setdefault((target, function, primitive), []).append(record)

    def schedule_flush(self) -> None:
        """Call ``on_first`` for other work that waits for the end of the turn."""
        self._on_first(False)

    def flush(self) -> list[Packet]:
        """Return all waiting records as packets of bounded size: one after the other for each target and kind."""
        waiting, self._waiting = self._waiting, {}
        self._is_due = False
        return [
            Packet(self._source, target, function, primitive, part)
            for (target, function, primitive), records in waiting.items()
            for part in self._parts(records)
        ]

    def _parts(self, records: Sequence[Record]) -> Iterator[list[Record]]:
        part: list[Record] = []
        size = 0
        for record in records:
            part.append(record)
            size += record_size(record)
            if len(part) >= self._records_max or size >= FULL_PACKET_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part
