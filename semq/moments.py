"""Times as texts, in one form everywhere: ISO 8601 with the offset of a zone, in whole seconds unless more is needed.

What a node says of times (answers, errors, health, ledger) is in UTC; what a person sees on a terminal is in the time
zone of whoever looks (``TZ=UTC semq …`` for UTC). Counting stays in milliseconds since 1970 UTC. No clock, no IO.
"""

import re
from datetime import UTC, datetime, timedelta

# What ``utc_text`` writes, within other words; and the milliseconds that older nodes wrote in the lines of receipts.
_WITHIN = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)(?![\d:])|(?<=\bstated at )\d{12,14}\b"
)
EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


def utc_text(moment: datetime | float, *, exact: bool = False) -> str:
    """A moment, or milliseconds since 1970 UTC, as a node says it: 2026-03-31T12:00:05+00:00; ``exact`` with
    milliseconds. Raises OverflowError for what no calendar has."""
    known = moment if isinstance(moment, datetime) else EPOCH + moment * MILLISECOND
    return known.astimezone(UTC).isoformat(timespec="milliseconds" if exact else "seconds")


def moment_text(at: int, *, exact: bool = False) -> str:
    """Milliseconds that somebody else wrote, as ``utc_text`` says them; as they are where no calendar has them."""
    try:
        return utc_text(at, exact=exact)
    except OverflowError:
        return str(at)


def milliseconds(text: str) -> int:
    """What ``utc_text`` was made of; digits alone are milliseconds already. Raises ValueError."""
    return int(text) if text.isdecimal() else (datetime.fromisoformat(text) - EPOCH) // MILLISECOND


def local_text(moment: datetime | float | str, unit: str = "seconds") -> str:
    """A moment, milliseconds, or what ``utc_text`` has made, in the zone of whoever looks: 2026-03-31T14:00:05+02:00.

    Raises ValueError, OverflowError and OSError for what is none.
    """
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    elif not isinstance(moment, datetime):
        moment = EPOCH + moment * MILLISECOND
    return moment.astimezone().isoformat(timespec=unit)


def time_of_day(moment: datetime, unit: str = "seconds") -> str:
    """Return the time of day in the reader's time zone: 14:00:05+02:00."""
    return moment.astimezone().timetz().isoformat(timespec=unit)


def in_local(text: str) -> str:
    """Return a text of a node with every time in it in the reader's time zone."""
    return _WITHIN.sub(_as_local, text)


def _as_local(found: re.Match[str]) -> str:
    try:
        return local_text(float(found[0]) if found[0].isdecimal() else found[0])
    except (ValueError, OverflowError, OSError):
        return found[0]
