"""Charts of documents over time: drawn by the server as SVG paths, with a text for those who do not see them.

``chart.html`` has the elements. A legend states each figure as text, and ``/figures`` has the table of all points.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from semq.console.display import Row
from semq.durations import classes, duration
from semq.moments import utc_text
from semq.status_words import FIGURES, LATENCIES
from semq.store.figures import BOUNDS_MS

WIDTH, HEIGHT, TOP = 300.0, 70.0, 4.0
# Kind of node | charts: title (``FIGURES``), series; a series is the kind of documents and the style of its path
DOCUMENTS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "local": (("sent", ("accepted", "delivered", "failed")), ("taken", ("received", "processed", "parked"))),
    "platform": (("passed", ("forwarded", "stored", "refused")),),
}
STYLES = ("area", "good", "bad")
TIMED = {"local": ("delivered", "processed"), "platform": ("released",)}  # kinds with a latency


class Series(Struct, frozen=True):
    """A line of a chart: its style, its name, its figure for the whole period, and its path."""

    style: str
    name: str
    figure: str
    path: str


class Chart(Struct, frozen=True):
    """A chart of some series over the points of a period."""

    title: str
    series: tuple[Series, ...]
    scale: str  #: values at the lower and upper edge; empty without documents

    @property
    def text(self) -> str:
        """The chart as text."""
        return f"{self.title}: " + ", ".join(f"{series.name} {series.figure}" for series in self.series)


def charts_of(_: Callable[[str], str], traffic: Row, kind: str) -> Iterator[Chart]:
    """Yield the charts of an answer of ``figures.traffic`` at a kind of node."""
    points = traffic["points"]
    for title, kinds in DOCUMENTS[kind]:
        values = [[point.get("documents", {}).get(name, 0) for point in points] for name in kinds]
        figures = [f"{traffic['documents'].get(name, 0):,}" for name in kinds]
        yield _chart(_(FIGURES[title]), STYLES, [_(FIGURES[name]) for name in kinds], figures, values)
    queues = [name for name in ("sender", "hub", "inbox") if name in traffic["backlog"]]
    lengths = [[point.get("backlog", {}).get(name, 0) for point in points] for name in queues]
    figures = [f"{traffic['backlog'][name]:,}" for name in queues]
    yield _chart(_("Backlog"), ("area", "second"), [_(FIGURES[name]) for name in queues], figures, lengths)
    for name in TIMED[kind]:
        yield _latency(_, name, traffic)


def _chart(
    title: str, styles: Sequence[str], names: Sequence[str], figures: Sequence[str], values: Sequence[Sequence[int]]
) -> Chart:
    most = max((value for row in values for value in row), default=0)
    scale = _nice(most)
    drawn = zip(styles, names, figures, values, strict=False)
    series = (
        Series(style, name, figure, _path([value / scale for value in row], filled=style == "area"))
        for style, name, figure, row in drawn
    )
    return Chart(title, tuple(series), f"0 – {scale:,}" if most else "")


def _latency(_: Callable[[str], str], name: str, traffic: Row) -> Chart:
    """Return the chart of median and 99 % of a latency; its scale are the buckets."""
    title = _(LATENCIES[name])
    whole = traffic["latency"].get(name)
    series = []
    for style, word, quantile in (("area", _("median"), "median_ms"), ("second", _("99 %"), "p99_ms")):
        found = [point.get("latency", {}).get(name) for point in traffic["points"]]
        ranks = [None if one is None else (_rank(one.get(quantile)) + 1) / (len(BOUNDS_MS) + 1) for one in found]
        figure = "–" if whole is None else latency_text(whole.get(quantile))
        series.append(Series(style, word, figure, _path(ranks, filled=style == "area")))
    scale = f"{duration(BOUNDS_MS[0] / 1000)} – {duration(BOUNDS_MS[-1] / 1000)}" if whole is not None else ""
    return Chart(title, tuple(series), scale)


def latency_text(bound_ms: int | None) -> str:
    """Return an upper bound of a latency as text; None: longer than a day."""
    return classes(BOUNDS_MS)[_rank(bound_ms)]


def axis(traffic: Row) -> tuple[str, str]:
    """Return the labels of the first and the last point, in UTC: a time of day, or a date for a week."""
    part = slice(5, 10) if traffic["period"] == "week" else slice(11, 16)
    return utc_text(traffic["points"][0]["at"])[part], utc_text(traffic["points"][-1]["at"])[part]


def _rank(bound_ms: int | None) -> int:
    return len(BOUNDS_MS) if bound_ms is None else bisect_left(BOUNDS_MS, bound_ms)


def _nice(most: int) -> int:
    """Return the least number 1, 2 or 5 times a power of ten that is not below ``most``."""
    power: int = 10 ** max(len(str(most)) - 1, 0)
    return next(step * power for step in (1, 2, 5, 10) if step * power >= most)


def _path(parts: Sequence[float | None], *, filled: bool) -> str:
    """Return the path of values from 0 to 1, a step for each; None: a gap. An area has one bar for each step."""
    step, path, is_joined = WIDTH / max(len(parts), 1), [], False
    for number, part in enumerate(parts):
        x, y = number * step, TOP + (HEIGHT - TOP) * (1 - min(part or 0.0, 1.0))
        if part is not None:
            start = f"V{y:.1f}" if is_joined else f"M{x:.1f},{HEIGHT:.1f}V{y:.1f}" if filled else f"M{x:.1f},{y:.1f}"
            path.append(f"{start}H{x + step:.1f}" + (f"V{HEIGHT:.1f}" if filled else ""))
        is_joined = part is not None and not filled
    return "".join(path)
