"""Thresholds per verdict and pair, and the plausibility of the volume.

Empty extracts agree with each other, so a date whose messages are all missing would meet all thresholds. Therefore the
number of messages is compared with the usual number on this weekday.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from spark_reconcile.settings import Limit


class VerdictCount(NamedTuple):
    """The number of messages with a verdict, of all pairs or of one."""

    pair: str  #: empty for all pairs
    verdict: str
    messages: int
    of: int  #: all messages of the date, or of the pair
    age_s: int = 0  #: age of the oldest message, also of a carried one


class Breach(NamedTuple):
    """An exceeded threshold. Values are not rounded."""

    pair: str  #: empty for all pairs
    verdict: str
    what: str  #: max_count, max_rate or max_age_s
    found: float
    accepted: float
    messages: int = 0  #: messages with the verdict
    of: int = 0  #: all messages of the date, or of the pair


def breaches(counts: Iterable[VerdictCount], limits: Mapping[str, Limit]) -> list[Breach]:
    """Return the thresholds that these counts exceed, in the order of the counts."""
    return [breach for count in counts for breach in _breaches(count, limits.get(count.verdict, Limit()))]


def _breaches(count: VerdictCount, limit: Limit) -> Iterable[Breach]:
    # A date may have no messages while those of earlier dates are found.
    measured = (
        ("max_count", count.messages, limit.max_count),
        ("max_rate", count.messages / (count.of or count.messages or 1), limit.max_rate),
        ("max_age_s", count.age_s, limit.max_age_s),
    )
    for what, value, accepted in measured:
        if accepted is not None and value > accepted:
            yield Breach(count.pair, count.verdict, what, value, accepted, count.messages, count.of)


class Plausibility(NamedTuple):
    """Whether the volume of a date is plausible, and the reason if not."""

    believed: bool
    why: str  #: empty if the volume is plausible
    messages: int
    usual: float | None  #: median of the same weekday in earlier weeks; None without a history

    @property
    def usual_text(self) -> str:
        """Return ``usual`` with separators (1,234,567.5), or a dash."""
        return "–" if self.usual is None else f"{self.usual:,.12g}"


def plausibility(messages: int, earlier: Sequence[int], low: float, high: float) -> Plausibility:
    """Compare the number of messages of a date with the median of ``earlier``, dates of the same weekday.

    ``low``, ``high``: the accepted range, as multiples of the median. With fewer than two earlier dates, only a date
    without messages is implausible.
    """
    usual = float(median(earlier)) if len(earlier) >= 2 else None
    if usual is not None and usual > 0 and not low * usual <= messages <= high * usual:
        comparison = "fewer" if messages < usual else "more"
        found = Plausibility(False, "", messages, usual)
        return found._replace(why=f"far {comparison} documents than the {found.usual_text} usual on this weekday")
    if messages == 0 and usual != 0:
        return Plausibility(False, "no document at all", messages, usual)
    return Plausibility(True, "", messages, usual)
