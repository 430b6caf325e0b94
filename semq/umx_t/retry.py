"""When to ask again: pure numbers of seconds (PROTOCOL.md section 13)."""

JITTER = 0.2  # each interval is spread by ±20 %, so that a thousand nodes do not ask in step


def interval(asked: int, first_s: float, max_s: float, jitter: float) -> float:
    """Seconds until the next inquiry: ``first_s`` doubled for each time asked, at most ``max_s``, ±20 %.

    ``jitter`` is an evenly spread number in [0, 1) that the caller drew.
    """
    base = min(first_s * 2.0 ** min(asked, 32), max_s)
    return base * (1.0 - JITTER + 2.0 * JITTER * jitter)


def backoff(failures: int, first_s: float, max_s: float, jitter: float) -> float:
    """Seconds until a failed step is tried again; ``failures`` counts from 1."""
    return interval(max(failures, 1) - 1, first_s, max_s, jitter)
