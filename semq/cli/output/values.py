"""Values in the answers of nodes as texts: times, sizes, numbers, statuses.

Times are ISO 8601 in the local time zone (``TZ=UTC semq …`` for UTC), always with the offset from UTC.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime

from semq.durations import duration
from semq.moments import in_local, local_text, time_of_day
from semq.sizes import size
from semq.status_words import WORDS

SIZE_SUFFIXES = ("size", "bytes")  # ends of the names of sizes
TEXTS_OF_NODES = frozenset({"detail", "error", "last_error", "output", "text"})  # names of texts with times in UTC


def moment(milliseconds: object) -> str:
    """Return a time as 2026-03-31T14:00:05+02:00; empty if the value is not a time."""
    time = _datetime(milliseconds)
    return "" if time is None else local_text(time)


def brief_time(milliseconds: object) -> str:
    """Return 14:00:05+02:00 for a time today, 2026-03-31T14:00+02:00 on other days; empty without a time."""
    time = _datetime(milliseconds)
    if time is None:
        return ""
    is_today = time.date() == datetime.now().astimezone().date()
    return time_of_day(time) if is_today else local_text(time, "minutes")


def local_time(text: object) -> str:
    """Return a time in ISO 8601 in the form of ``moment``; any other text unchanged."""
    try:
        return local_text(str(text))
    except (ValueError, OverflowError, OSError):
        return str(text)


def age_of(text: object) -> str:
    """Return the age of a time in ISO 8601 (1 d 2 h); empty if the text is not a time."""
    try:
        seconds = int((datetime.now().astimezone() - datetime.fromisoformat(str(text)).astimezone()).total_seconds())
    except (ValueError, OverflowError, OSError):
        return ""
    return duration(max(seconds, 0))


def counted(number: object, noun: str, plural: str = "") -> str:
    """Return a number with its noun: 1 line, 2 lines."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def node_name(address: object) -> str:
    """Return 10008 for 1.10008."""
    return str(address).removeprefix("1.")


def fact_texts(facts: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and text of each fact that is not empty; names within a mapping are dotted."""
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from fact_texts(value, f"{prefix}{name}.")
        elif value not in (None, "", [], ()):
            yield prefix + name, as_text(value, name)


def as_text(value: object, name: str = "") -> str:
    """Return one value as text. Its ``name`` shows whether it is a time (``…_at``), a size (``…_bytes``) or neither."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "at" or name.endswith(("_at", "not_after", "not_before", "_since")):
        return moment(value) if isinstance(value, int | float) else local_time(value)
    if isinstance(value, int | float) and name.endswith(SIZE_SUFFIXES):
        return size(value) if value < 1024 else f"{size(value)} ({counted(value, 'byte')})"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {text}" for key, text in fact_texts(value))
    if isinstance(value, list | tuple):
        return in_local(" ".join(map(as_text, value))) if name == "reason" else ", ".join(map(as_text, value))
    text = in_local(str(value)) if name in TEXTS_OF_NODES else str(value)
    return f"{text} ({WORDS[text]})" if text in WORDS else text


def _datetime(milliseconds: object) -> datetime | None:
    if not isinstance(milliseconds, int | float) or isinstance(milliseconds, bool) or not milliseconds:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return None
