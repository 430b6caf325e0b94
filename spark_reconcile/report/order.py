"""The order of a message's ledger lines (its story): by their numbers, by cause and effect, else by corrected times.

Times alone are not sufficient: corrected times may be wrong by some hundredths of a second, and a document may be
delivered in less time.
"""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import NamedTuple

from semq.store.rows import Event, Side
from spark_reconcile.tables import Row

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
    before: list[set[int]] = [set() for _ in lines]  # for each line, the numbers of the lines that must precede it
    for ledger in {(line["node"], line["store"]) for line in lines}:
        of_ledger = [
            n for n, line in enumerate(lines) if (line["node"], line["store"]) == ledger and line["seq"] is not None
        ]
        of_ledger.sort(key=lambda n: lines[n]["seq"])
        for earlier, later in pairwise(of_ledger):
            before[later].add(earlier)
    for rule in CAUSES:
        cause = _first(lines, rule.by, rule.causes, moment)
        effect = _first(lines, rule.side, rule.events, moment)
        if cause is not None and effect is not None:
            before[effect].add(cause)
    return [lines[n] for n in _sorted(before, [moment(line) for line in lines])]


def _first(lines: Sequence[Row], side: Side, events: frozenset[Event], moment: Callable[[Row], int]) -> int | None:
    numbers = [n for n, line in enumerate(lines) if line["side"] == side and line["event"] in events]
    return min(numbers, key=lambda n: moment(lines[n]), default=None)


def _sorted(before: Sequence[set[int]], moments: Sequence[int]) -> list[int]:
    """Return the numbers of lines in the order of time, but each line after those that must precede it.

    If ledgers contradict each other, the earliest of the remaining lines is next.
    """
    predecessors = [set(numbers) for numbers in before]
    ready = [(moments[n], n) for n, numbers in enumerate(predecessors) if not numbers]
    heapify(ready)
    remaining, ordered = set(range(len(moments))), []
    while remaining:
        n = heappop(ready)[1] if ready else min(remaining, key=lambda n: (moments[n], n))
        if n not in remaining:
            continue
        remaining.discard(n)
        ordered.append(n)
        for follower in remaining:
            if n in predecessors[follower]:
                predecessors[follower].discard(n)
                if not predecessors[follower]:
                    heappush(ready, (moments[follower], follower))
    return ordered
