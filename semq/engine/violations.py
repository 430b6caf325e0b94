"""Violations by peer: for each minute the ledger gets the first ones, and one line with the number of the others.

Without this bound a hostile peer could fill the ledger, because it can break a rule with every record of a packet.
"""

from msgspec import Struct

LINES_PER_MINUTE = 60  # lines of the ledger about one peer
PEERS_MAX = 1000  # peers with a count of their own; further names (the hub could invent any number) share one
WINDOW_S = 60.0
OTHERS = "others"


class Minute(Struct):
    """One minute of one peer, from its first violation on."""

    until: float  #: monotonic seconds
    lines: int = 0
    unwritten: int = 0  #: violations without a line of their own


class Violations:
    """Decides which violations of the peers of one engine get a line of the ledger."""

    def __init__(self) -> None:
        self._minutes: dict[str, Minute] = {}  #: in the order in which they end

    def admit(self, peer: str, now: float) -> bool:
        """Return whether a violation gets a line of its own, and count it if not."""
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
        """Remove the minutes that have ended. Return their peers with the number of violations without a line, unless
        it is 0."""
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
        """The first end of a minute, in monotonic seconds; None if there is none."""
        return next(iter(self._minutes.values())).until if self._minutes else None
