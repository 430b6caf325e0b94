"""Durations (30m, 2h, 7d) and dates (2026-03-31, 2026-03-31T14:00+02:00).

A date without an offset is in the local time zone.
"""

import re
from datetime import datetime, timedelta

from semq.cli.errors import BadTime
from semq.clock import SystemClock

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def milliseconds_ago(text: str) -> int:
    """Return a date, or now minus a duration, in milliseconds since 1970 UTC. Raises BadTime."""
    return _milliseconds(text, -1)


def milliseconds_ahead(text: str) -> int:
    """Return a date, or now plus a duration, in milliseconds since 1970 UTC. Raises BadTime.

    A number without a unit is already in milliseconds since 1970 UTC.
    """
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else _milliseconds(text, 1)


def _milliseconds(text: str, sign: int) -> int:
    duration = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    try:
        if duration is not None:
            moment = SystemClock().wall() + sign * timedelta(**{UNITS[duration[2]]: int(duration[1])})
        else:
            moment = datetime.fromisoformat(text).astimezone()
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise BadTime(time=text) from None
