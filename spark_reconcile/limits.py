"""Whether a run is good: thresholds per verdict and pair, and whether the volume can be believed at all.

An empty extract agrees with another empty extract. So the number of messages is compared with what is usual on this
weekday, and a date without any message is never simply fine. Pure: counts in, breaches out.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from spark_reconcile.settings import Limit


class Count(NamedTuple):
    """How many messages have a verdict, in all or of one pair."""

    pair: str  #: empty for all
    verdict: str
    messages: int
    of: int  #: messages of the date, or of the pair
    age_s: int = 0  #: of the oldest


class Breach(NamedTuple):
    """A threshold that was passed: what was found and what is accepted, unrounded, and the messages that it is of."""

    pair: str
    verdict: str
    what: str  #: max_count, max_rate or max_age_s
    found: float
    accepted: float
    messages: int = 0
    of: int = 0


def breaches(counts: Iterable[Count], limits: Mapping[str, Limit]) -> list[Breach]:
    """The thresholds that some counts pass, in the order of the counts."""
    return [breach for count in counts for breach in _of(count, limits.get(count.verdict, Limit()))]


def _of(count: Count, limit: Limit) -> Iterable[Breach]:
    found = (
        ("max_count", count.messages, limit.max_count),
        ("max_rate", count.messages / count.of if count.of else 0.0, limit.max_rate),
        ("max_age_s", count.age_s if count.messages else 0, limit.max_age_s),
    )
    for what, value, accepted in found:
        if accepted is not None and value > accepted:
            yield Breach(count.pair, count.verdict, what, value, accepted, count.messages, count.of)


class Plausibility(NamedTuple):
    """Whether the volume of a date can be believed, and why not."""

    believed: bool
    why: str
    messages: int
    usual: float | None  #: median of the same weekday in earlier weeks; null while there is no history


def plausibility(messages: int, earlier: Sequence[int], low: float, high: float) -> Plausibility:
    """Compare the messages of a date with those of the same weekday before; two earlier dates make a history."""
    usual = float(median(earlier)) if len(earlier) >= 2 else None
    if usual is not None and usual > 0 and not low * usual <= messages <= high * usual:
        way = "fewer" if messages < usual else "more"
        return Plausibility(
            False, f"far {way} messages than the {usual:g} that are usual on this weekday", messages, usual
        )
    if messages == 0 and usual != 0:
        return Plausibility(False, "no message at all", messages, usual)
    return Plausibility(True, "", messages, usual)
