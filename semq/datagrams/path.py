"""The path to the other end: answered probes show whether datagrams pass, and up to what size.

A probe is padded to the size that it tests. The path is open while probes are answered. Larger sizes are tried one
after the other (RFC 8899). Without answers the size falls back to ``SIZES[0]``. Sizes are those of UDP payloads.
"""

from typing import NamedTuple

from msgspec import Struct

# For tunnels, for Ethernet with IPv6 and IPv4, and for jumbo frames. As in QUIC, an open path passes 1200 bytes.
SIZES = (1200, 1280, 1352, 1400, 1452, 1472, 2952, 4452, 8900)
# Numbers of unanswered probes after which a larger size counts as too large, the size falls back, and the path closes
TRIES = 3
SMALLER_AFTER, CLOSED_AFTER = 2, 4
OUTSTANDING_MAX = 16  # remembered probes


class PathTimes(Struct, frozen=True):
    """Intervals of probes, in seconds."""

    answer_s: float = 1.0  #: wait for an answer
    keep_s: float = 15.0  #: interval on an open path; keeps the entry of a NAT alive
    search_s: float = 600.0  #: pause after a size was too large, until larger sizes are tried again


class SentProbe(NamedTuple):
    """A probe that was sent."""

    size: int
    sent_at: float
    is_awaited: bool  #: False after ``answer_s``


class PathProbe:
    """The path from this end to the other."""

    def __init__(self, times: PathTimes, now: float) -> None:
        self._times = times
        self.is_open = False
        self.open_since = now  #: when the path was last opened
        self.size = SIZES[0]  #: the largest datagram that may be sent
        self._unanswered = 0
        self._keep_at = now  #: when the next probe of the present size is due
        self._search_at = now  #: when a probe of the next larger size is due
        self._tries = 0  #: unanswered probes of the next larger size
        self._sent: dict[int, SentProbe] = {}  #: by number of the datagram

    def restart(self, now: float) -> None:
        """Close the path until a probe is answered: the address of the other end has changed."""
        self.is_open, self.size = False, SIZES[0]
        self._unanswered, self._tries = 0, 0
        self._sent.clear()
        self._keep_at = self._search_at = now

    def due(self, now: float) -> list[int]:
        """Return the sizes of the probes to send now."""
        self._expire(now)
        sizes: list[int] = []
        awaited = [probe.size for probe in self._sent.values() if probe.is_awaited]
        if now >= self._keep_at:
            sizes.append(self.size if self._unanswered < SMALLER_AFTER else SIZES[0])
            # The pause doubles after each unanswered probe.
            pause_s = self._times.answer_s * 2 ** min(self._unanswered, 10)
            self._keep_at = now + (self._times.keep_s if self.is_open else min(pause_s, self._times.keep_s))
        larger = self._next_larger()
        if self.is_open and larger and now >= self._search_at and larger not in awaited:
            sizes.append(larger)
        return sizes

    def note_sent(self, number: int, size: int, now: float) -> None:
        """Note a probe. ``number``: that of the datagram."""
        self._sent[number] = SentProbe(size, now, is_awaited=True)
        while len(self._sent) > OUTSTANDING_MAX:
            del self._sent[next(iter(self._sent))]

    def note_too_large(self, size: int, now: float) -> None:
        """Note that datagrams of this size cannot be sent or do not pass."""
        if size > self.size:
            self._search_at, self._tries = now + self._times.search_s, 0
        elif size > SIZES[0]:
            self._shrink(now)

    def note_answer(self, number: int, now: float) -> bool:
        """Note an answer; return whether another probe may be due now."""
        probe = self._sent.pop(number, None)
        if probe is None:
            return False
        size = probe.size
        was_open, self.is_open = self.is_open, True
        if not was_open:
            self.open_since = now
        self._unanswered = 0
        self._keep_at = max(self._keep_at, now + self._times.keep_s)
        if size > self.size or not was_open:
            self.size, self._tries, self._search_at = max(size, self.size), 0, now
        return not was_open or size >= self.size

    def _next_larger(self) -> int:
        return next((size for size in SIZES if size > self.size), 0)

    def _expire(self, now: float) -> None:
        for number, probe in self._sent.items():
            if probe.is_awaited and now - probe.sent_at >= self._times.answer_s:
                self._sent[number] = probe._replace(is_awaited=False)  # a late answer still counts
                self._note_lost(probe.size, now)

    def _note_lost(self, size: int, now: float) -> None:
        if size > self.size:
            self._tries += 1
            if self._tries >= TRIES:
                self.note_too_large(size, now)
            return
        self._unanswered += 1
        self._keep_at = min(self._keep_at, now) if self.is_open else self._keep_at
        if self._unanswered == SMALLER_AFTER and self.size > SIZES[0]:
            self._shrink(now)
        if self._unanswered >= CLOSED_AFTER:
            self.is_open = False

    def _shrink(self, now: float) -> None:
        self.size = SIZES[0]
        self._search_at, self._tries = now + self._times.search_s, 0
