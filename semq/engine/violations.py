"""Violations of one peer: the ledger gets the first lines of each minute, and one line with the number of the others.

A hostile peer can break a rule with every record of a packet; a line for each record would let it fill the ledger. Used
by ``core`` for all parts of an engine. Every violation is counted in the metrics, with or without a line.
"""

from dataclasses import dataclass

LINES_PER_MINUTE = 60  # lines of the ledger about one peer
PEERS_MAX = 1000  # peers with a count of their own; further names (the hub could invent any number) share one
WINDOW_S = 60.0
OTHERS = "others"


@dataclass(slots=True)
class Minute:
    """One minute of one peer, from its first violation on."""

    until: float  #: monotonic seconds
    lines: int = 0
    unwritten: int = 0  #: violations without a line of their own


class Violations:
    """Decides which violations of the peers of one engine get a line of the ledger."""

    def __init__(self) -> None:
        self._minutes: dict[str, Minute] = {}  #: in the order in which they end

    def admit(self, peer: str, now: float) -> bool:
        """Whether a violation gets a line of its own; otherwise it is counted for the line at the end of the minute."""
        if peer not in self._minutes and len(self._minutes) >= PEERS_MAX:
            peer = OTHERS
        minute = self._minutes.get(peer)
        if minute is None:
            minute = self._minutes[peer] = Minute(now + WINDOW_S)
        if minute.lines < LINES_PER_MINUTE:
            minute.lines += 1
            return True
        minute.unwritten += 1
        return False

    def ended(self, now: float) -> list[tuple[str, int]]:
        """Remove the minutes that have ended. Return their peers with the number of violations without a line, if this
        number is not 0."""
        over = []
        for peer, minute in self._minutes.items():
            if minute.until > now:
                break
            over.append((peer, minute.unwritten))
        for peer, _ in over:
            del self._minutes[peer]
        return [(peer, unwritten) for peer, unwritten in over if unwritten]

    @property
    def next_due(self) -> float | None:
        """The end of the minute that ends first (monotonic seconds); None if there is none."""
        return next(iter(self._minutes.values())).until if self._minutes else None
