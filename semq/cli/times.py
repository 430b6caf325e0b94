"""Times as people write them: an age (30m, 2h, 7d) or a moment (2026-03-31, 2026-03-31T14:00+02:00)."""

import re
from datetime import datetime, timedelta

from semq.cli.errors import BadTime
from semq.clock import SystemClock

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def milliseconds_ago(text: str) -> int:
    """The moment in milliseconds since 1970 UTC. Raises BadTime."""
    age = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    if age is not None:
        moment = SystemClock().wall() - timedelta(**{UNITS[age[2]]: int(age[1])})
    else:
        try:
            moment = datetime.fromisoformat(text).astimezone()
        except ValueError:
            raise BadTime(time=text) from None
    return int(moment.timestamp() * 1000)
