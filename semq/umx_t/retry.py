"""Intervals between inquiries and between retries, in seconds (PROTOCOL.md section 13)."""

import math
from collections.abc import Iterator
from itertools import count

JITTER = 0.2  # each interval varies by ±20 %, so that a thousand nodes do not ask at the same moment
MIDDLE = 0.5  # the random number with which an interval does not vary


def interval(inquiries: int, first_s: float, max_s: float, jitter: float) -> float:
    """Return the seconds until the next inquiry: ``first_s``, doubled for each earlier inquiry, at most ``max_s``.

    The result varies by ``JITTER`` around this value. ``jitter`` is a uniformly distributed random number in [0, 1).
    """
    base = min(first_s * 2.0 ** min(inquiries, 32), max_s)
    return base * (1.0 - JITTER + 2.0 * JITTER * jitter)


def doublings(first_s: float, max_s: float) -> int:
    """Return the number of inquiries after which the interval no longer grows."""
    return math.ceil(math.log2(max(max_s / first_s, 1)))


def backoff(failures: int, first_s: float, max_s: float, jitter: float) -> float:
    """Return the seconds until a failed step is tried again; ``failures`` counts from 1."""
    return interval(max(failures, 1) - 1, first_s, max_s, jitter)


def growing(first_s: float, max_s: float) -> Iterator[float]:
    """Yield intervals without a variation: ``first_s``, doubled each time, at most ``max_s``."""
    return (interval(number, first_s, max_s, MIDDLE) for number in count())
