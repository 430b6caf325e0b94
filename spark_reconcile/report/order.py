"""The order of the lines of a story. The lines of one ledger keep their order, no effect precedes its cause, and
otherwise the corrected times decide. Times alone are not sufficient: they are exact to some hundredths of a second,
and the delivery of a document takes less.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

from semq.store.rows import Event, Side

Row = dict[str, Any]
_S, _H, _R = Side.SENDER, Side.HUB, Side.RECEIVER


class Precedence(NamedTuple):
    """A row of the table: ``side`` writes ``events`` only after ``by`` has written one of ``causes``."""

    side: Side
    events: frozenset[Event]
    by: Side
    causes: frozenset[Event]


def _events(*events: Event) -> frozenset[Event]:
    return frozenset(events)


_ACCEPTED = _events(Event.ACCEPTED)
_RECORDS = _events(Event.RECEIVED, Event.REJECTED, Event.CANCELLED)
CAUSES = (
    Precedence(_H, _events(Event.FORWARDED, Event.STORED, Event.SENT, Event.REFUSED, Event.DROPPED), _S, _ACCEPTED),
    Precedence(_R, _RECORDS, _S, _ACCEPTED),
    Precedence(_R, _RECORDS, _H, _events(Event.FORWARDED, Event.SENT)),
    Precedence(_S, _events(Event.FORWARDED), _H, _events(Event.FORWARDED)),
    Precedence(_S, _events(Event.STORED), _H, _events(Event.STORED)),
    Precedence(_S, _events(Event.DROPPED), _H, _events(Event.DROPPED)),
    Precedence(_S, _events(Event.DELIVERED), _R, _events(Event.RECEIVED)),
    Precedence(_S, _events(Event.CANCELLED), _R, _events(Event.CANCELLED)),
    Precedence(_S, _events(Event.REJECTED), _R, _events(Event.REJECTED, Event.CANCELLED)),
    Precedence(_S, _events(Event.REJECTED), _H, _events(Event.REFUSED)),
    Precedence(_H, _events(Event.RELEASED), _R, _RECORDS),
    Precedence(_R, _events(Event.PLATFORM_ACKED), _H, _events(Event.RELEASED)),
    Precedence(_R, _events(Event.SENDER_ACKED), _S, _events(Event.DELIVERED, Event.REJECTED, Event.CANCELLED)),
)


def in_order(lines: Sequence[Row], moment: Callable[[Row], int]) -> list[Row]:
    """Return the lines of one message in the order of its story. ``moment``: the time of a line by the hub's clock."""
    before: list[set[int]] = [set() for _ in lines]
    for ledger in {(line["node"], line["store"]) for line in lines}:
        own = [n for n, line in enumerate(lines) if (line["node"], line["store"]) == ledger and line["seq"] is not None]
        own.sort(key=lambda n: lines[n]["seq"])
        for earlier, later in pairwise(own):
            before[later].add(earlier)
    for cause in CAUSES:
        first = _first(lines, cause.by, cause.causes, moment)
        effect = _first(lines, cause.side, cause.events, moment)
        if first is not None and effect is not None:
            before[effect].add(first)
    return [lines[n] for n in _sorted(before, [moment(line) for line in lines])]


def _first(lines: Sequence[Row], side: Side, events: frozenset[Event], moment: Callable[[Row], int]) -> int | None:
    """Return the first line of a side with one of these events. Later lines have no certain cause."""
    found = [n for n, line in enumerate(lines) if line["side"] == side and line["event"] in events]
    return min(found, key=lambda n: moment(lines[n]), default=None)


def _sorted(before: Sequence[set[int]], moments: Sequence[int]) -> list[int]:
    """Return numbers by their times, but each after those that must precede it. Where ledgers contradict each other,
    the earliest is first.
    """
    waits = [set(numbers) for numbers in before]
    ready = [(moments[n], n) for n, numbers in enumerate(waits) if not numbers]
    heapify(ready)
    left, sorted_places = set(range(len(moments))), []
    while left:
        n = heappop(ready)[1] if ready else min(left, key=lambda n: (moments[n], n))
        if n not in left:
            continue
        left.discard(n)
        sorted_places.append(n)
        for other in left:
            if n in waits[other]:
                waits[other].discard(n)
                if not waits[other]:
                    heappush(ready, (moments[other], other))
    return sorted_places
