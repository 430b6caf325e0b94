"""Durations as texts, in the language of the task (``translations``), for pages, reports and the command line."""

from collections.abc import Iterator, Sequence

from semq.translations import language

# Language | seconds in a unit: its word
UNITS = {
    "en": {86_400.0: "d", 3600.0: "h", 60.0: "min", 1.0: "s", 0.001: "ms"},
    "zh": {86_400.0: "天", 3600.0: "小时", 60.0: "分钟", 1.0: "秒", 0.001: "毫秒"},
}
PRECISE_S = 10  # shorter durations have a tenth of a second


def duration(seconds: float, units: int = 2) -> str:
    """Return a duration in at most ``units`` units, from the largest that occurs: 12 h 59 min, 1.2 s, 86 ms."""
    words = UNITS[language()]
    if 0 < seconds < 1:
        return f"{int(seconds * 1000)} {words[0.001]}"
    if 0 < seconds < PRECISE_S:
        return f"{int(seconds * 10) / 10:g} {words[1.0]}"
    return " ".join(f"{count} {words[size]}" for count, size in _split(seconds, units) if count) or f"0 {words[1.0]}"


def classes(bounds_ms: Sequence[int]) -> list[str]:
    """Return the names of classes of durations with these bounds, and of the class of longer ones: ≤ 1 h, > 1 h."""
    return [*(f"≤ {duration(bound / 1000)}" for bound in bounds_ms), f"> {duration(bounds_ms[-1] / 1000)}"]


def longer(seconds: float, than_s: float) -> str:
    """Return a duration in as many units as are needed to show that it is longer than ``than_s``."""
    sufficient = (units for units in (2, 3, 4) if sum(n * size for n, size in _split(seconds, units)) > than_s)
    return duration(seconds, next(sufficient, 4))


def _split(seconds: float, units: int) -> Iterator[tuple[int, float]]:
    """Yield the counts and sizes of ``units`` units, from the largest that occurs."""
    remaining = int(seconds)
    for size in (86_400, 3600, 60, 1):
        if units and seconds >= size:
            yield remaining // size, float(size)
            remaining, units = remaining % size, units - 1
