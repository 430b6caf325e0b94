"""Times as texts: ISO 8601 with the offset of a zone, in whole seconds by default.

Nodes write times in UTC; a terminal shows them in the time zone of its user.
"""

import re
from datetime import UTC, datetime, timedelta

# The form of ``utc_text``, also with a space, a fraction or Z; and the milliseconds ("stated at …") that older nodes
# wrote into ledger lines about receipts.
_TIME_IN_TEXT = re.compile(
    r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)(?![\d:])|(?<=\bstated at )\d{12,14}\b"
)
EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


def utc_text(moment: datetime | float, *, exact: bool = False) -> str:
    """Return a moment, or milliseconds since 1970 UTC, as text: 2026-03-31T12:00:05+00:00.

    ``exact``: with milliseconds. Raises OverflowError beyond the years of a ``datetime``.
    """
    if not isinstance(moment, datetime):
        moment = EPOCH + moment * MILLISECOND
    return moment.astimezone(UTC).isoformat(timespec="milliseconds" if exact else "seconds")


def utc_text_or_none(moment: datetime | None) -> str | None:
    """Return ``utc_text`` of a moment, or None."""
    return None if moment is None else utc_text(moment)


def moment_text(at: int, *, exact: bool = False) -> str:
    """Return ``utc_text`` of milliseconds from another node, or digits if they are out of range."""
    try:
        return utc_text(at, exact=exact)
    except OverflowError:
        return str(at)


def milliseconds(text: str) -> int:
    """Return milliseconds since 1970 UTC for an ISO 8601 text, or for milliseconds as digits.

    Raises ValueError for a text that is not a time, and TypeError for a time without an offset.
    """
    return int(text) if text.isdecimal() else (datetime.fromisoformat(text) - EPOCH) // MILLISECOND


def local_text(moment: datetime | float | str, unit: str = "seconds") -> str:
    """Return a moment, milliseconds, or an ISO 8601 text in the local time zone: 2026-03-31T14:00:05+02:00.

    ``unit`` is the smallest unit shown. Raises ValueError for a text that is not a time, and ValueError, OverflowError
    or OSError for a time out of range.
    """
    if isinstance(moment, str):
        moment = datetime.fromisoformat(moment)
    elif not isinstance(moment, datetime):
        moment = EPOCH + moment * MILLISECOND
    return moment.astimezone().isoformat(timespec=unit)


def time_of_day(moment: datetime, unit: str = "seconds") -> str:
    """Return the time of day in the local time zone: 14:00:05+02:00."""
    return moment.astimezone().timetz().isoformat(timespec=unit)


def in_local(text: str) -> str:
    """Return a text with the times in it converted to the local time zone."""
    return _TIME_IN_TEXT.sub(_as_local, text)


def _as_local(match: re.Match[str]) -> str:
    try:
        return local_text(float(match[0]) if match[0].isdecimal() else match[0])
    except (ValueError, OverflowError, OSError):
        return match[0]
