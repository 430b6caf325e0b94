"""The path to the other end: whether datagrams pass, and up to what size, found by probes that the other end answers.

A probe is padded to the size that it tests. The path is open while probes of ``SIZES[0]`` bytes are answered; larger
sizes are tried one after the other (RFC 8899), and given up when probes of the present size are no longer answered.
Sizes are those of UDP payloads. Nothing here sends: ``due`` returns the sizes to probe with.
"""

from dataclasses import dataclass

# For tunnels, Ethernet with IPv6 and with IPv4, jumbo frames. As in QUIC, a path that does not pass 1200 bytes is none.
SIZES = (1200, 1280, 1352, 1400, 1452, 1472, 2952, 4452, 8900)
TRIES = 3  # probes of a larger size before it counts as too large
SMALLER_AFTER, CLOSED_AFTER = 2, 4  # unanswered probes in a row
OUTSTANDING_MAX = 16


@dataclass(frozen=True, slots=True)
class PathTimes:
    """Intervals of probes, in seconds."""

    answer_s: float = 1.0  #: after which a probe counts as lost
    keep_s: float = 15.0  #: between probes of an open path; keeps the entry of a NAT alive
    search_s: float = 600.0  #: until larger sizes are tried again


class PathProbe:
    """The path in one direction."""

    def __init__(self, times: PathTimes, now: float) -> None:
        self._times = times
        self.is_open = False
        self.size = SIZES[0]  #: the largest datagram that may be sent
        self._unanswered = 0
        self._keep_at = now
        self._search_at = now
        self._tries = 0
        #: number of the datagram, to size, when it was sent, and whether it still waits for its answer
        self._sent: dict[int, tuple[int, float, bool]] = {}

    def restart(self, now: float) -> None:
        """Find out again whether datagrams pass: the address of the other end has changed."""
        self.is_open, self.size = False, SIZES[0]
        self._unanswered, self._tries = 0, 0
        self._sent.clear()
        self._keep_at = self._search_at = now

    def due(self, now: float) -> list[int]:
        """Return the sizes of the probes to send now."""
        self._expire(now)
        sizes: list[int] = []
        waiting = [size for size, _, waits in self._sent.values() if waits]
        if now >= self._keep_at:
            sizes.append(self.size if self._unanswered < SMALLER_AFTER else SIZES[0])
            # Without answers first often, then as rarely as on an open path.
            pause_s = self._times.answer_s * 2 ** min(self._unanswered, 10)
            self._keep_at = now + (self._times.keep_s if self.is_open else min(pause_s, self._times.keep_s))
        larger = self._larger()
        if self.is_open and larger and now >= self._search_at and larger not in waiting:
            sizes.append(larger)
        return sizes

    def sent(self, number: int, size: int, now: float) -> None:
        """Note a probe that was sent."""
        self._sent[number] = (size, now, True)
        while len(self._sent) > OUTSTANDING_MAX:
            del self._sent[next(iter(self._sent))]

    def too_large(self, size: int, now: float) -> None:
        """Note that this machine cannot send datagrams of a size."""
        if size > self.size:
            self._search_at, self._tries = now + self._times.search_s, 0
        elif size > SIZES[0]:
            self._shrink(now)

    def answered(self, number: int, now: float) -> bool:
        """Note the answer to a probe; return whether another one may be due now."""
        size, _, _ = self._sent.pop(number, (0, 0.0, False))
        if not size:
            return False
        was_open, self.is_open = self.is_open, True
        self._unanswered = 0
        self._keep_at = max(self._keep_at, now + self._times.keep_s)
        if size > self.size or not was_open:
            self.size, self._tries, self._search_at = max(size, self.size), 0, now
        return not was_open or size >= self.size

    def _larger(self) -> int:
        return next((size for size in SIZES if size > self.size), 0)

    def _expire(self, now: float) -> None:
        for number, (size, at, waits) in self._sent.items():
            if waits and now - at >= self._times.answer_s:
                self._sent[number] = (size, at, False)  # a late answer still counts
                self._lost(size, now)

    def _lost(self, size: int, now: float) -> None:
        if size > self.size:
            self._tries += 1
            if self._tries >= TRIES:
                self.too_large(size, now)
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
