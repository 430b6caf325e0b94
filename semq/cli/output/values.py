"""Values in words: times, sizes, numbers and statuses of the JSON answers of nodes.

Times are ISO 8601 in the local time zone (``TZ=UTC semq …`` for UTC), always with the offset. `printer` prints facts by
``lines``, so that no command shows a time in milliseconds or a value of Python.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from semq.moments import in_local, local_text, time_of_day
from semq.sizes import size
from semq.status_words import WORDS

SIZES = ("size", "bytes")
TEXTS_OF_NODES = frozenset({"detail", "error", "last_error", "output", "text"})  # they contain times in UTC
UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def moment(milliseconds: object) -> str:
    """Return a time as 2026-03-31T14:00:05+02:00; empty if there is none."""
    found = _datetime(milliseconds)
    return "" if found is None else local_text(found)


def brief(milliseconds: object) -> str:
    """Return a time for a table: 14:00:05+02:00 if it is today, otherwise 2026-03-31T14:00+02:00."""
    found = _datetime(milliseconds)
    if found is None:
        return ""
    is_today = found.date() == datetime.now().astimezone().date()
    return time_of_day(found) if is_today else local_text(found, "minutes")


def local(text: object) -> str:
    """Return a time that a node has written as text in the form of ``moment``; any other text unchanged."""
    try:
        return local_text(str(text))
    except (ValueError, OverflowError, OSError):
        return str(text)


def ago(text: object) -> str:
    """Return the age of a time in its two largest units; empty if the text is no time."""
    try:
        seconds = int((datetime.now().astimezone() - datetime.fromisoformat(str(text)).astimezone()).total_seconds())
    except (ValueError, OverflowError, OSError):
        return ""
    parts = []
    for unit, name in UNITS:
        if seconds >= unit:
            parts.append(f"{seconds // unit} {name}")
            seconds %= unit
    return " ".join(parts[:2]) or "0 s"


def counted(number: object, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 line, 2 lines."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def node_name(address: object) -> str:
    """Return an institution without the type of its node."""
    return str(address).removeprefix("1.")


def lines(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield facts as names and texts: a tree as dotted names, without empty values."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from lines(value, f"{prefix}{name}.")
        elif value not in (None, "", [], ()):
            yield prefix + name, plain(value, name)


def plain(value: Any, name: str = "") -> str:
    """Return one value as text, by the kind that its name implies."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "at" or name.endswith(("_at", "not_after", "not_before", "_since")):
        return moment(value) if isinstance(value, int | float) else local(value)
    if isinstance(value, int | float) and name.endswith(SIZES):
        return size(value) if value < 1024 else f"{size(value)} ({counted(value, 'byte')})"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {text}" for key, text in lines(value))
    if isinstance(value, list | tuple):
        return in_local(" ".join(map(plain, value))) if name == "reason" else ", ".join(map(plain, value))
    text = in_local(str(value)) if name in TEXTS_OF_NODES else str(value)
    return f"{text} ({WORDS[text]})" if text in WORDS else text


def _datetime(milliseconds: object) -> datetime | None:
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool) or not milliseconds:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
