"""Counts of violations of the protocol by source and code, in bounded memory, for health and status.

Violations for which ``violations`` admits no line are counted, too. After the first ``KEPT_MAX`` pairs of source and
code, all other pairs share one count.
"""

from msgspec import Struct

from semq.answers.status import ViolationState
from semq.foreign_text import shortened

KEPT_MAX = 100
OTHERS = ("others", "")
NAME_MAX = 140  # characters
SHOWN_MS = 86_400_000  # health shows the last day


class ViolationsSeen(Struct):
    """Violations with one code by one source."""

    count: int
    first: int  #: milliseconds since 1970 UTC
    last: int
    text: str  #: the text of the newest violation


class Misconduct:
    """The violations by the peers of one engine since its start."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], ViolationsSeen] = {}

    def note(self, source: str, code: str, text: str, at: int) -> None:
        """Count a violation by ``source``. ``at``: milliseconds since 1970 UTC."""
        key = source[:NAME_MAX], code
        if key not in self._seen and len(self._seen) >= KEPT_MAX:
            key = OTHERS
        seen = self._seen.get(key)
        if seen is None:
            self._seen[key] = ViolationsSeen(1, at, at, shortened(text, 200))
        else:
            seen.count, seen.last, seen.text = seen.count + 1, at, shortened(text, 200)

    def seen(self, since: int = 0) -> list[ViolationState]:
        """Return the violations by source and code, the most frequent first, with their counts since the start. Leave
        out those whose last violation was before ``since`` (milliseconds since 1970 UTC)."""
        ordered = sorted(self._seen.items(), key=lambda item: -item[1].count)
        ordered = [item for item in ordered if item[1].last >= since]
        return [
            ViolationState(who=source, what=code, count=s.count, first=s.first, last=s.last, text=s.text)
            for (source, code), s in ordered
        ]
