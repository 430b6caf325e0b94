"""The charts of the report as SVG with real text, drawn without browser or network. Each has its table on the page.

A chart is a Vega-Lite specification, written out as the plain facts that it is; the renderer draws it. Colours are
those that colour-blind readers can tell apart, and every bar carries its number, so none depends on colour.
"""

from collections.abc import Sequence
from typing import Any

import vl_convert
from markupsafe import Markup, escape

_FONT = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
_INK, _MUTED, _BAR = "#1f2933", "#5b6774", "#44627d"
_NEW, _OLD = "#b3261e", "#e0a49f"
# Told apart by colour-blind readers too where they are few; of many series the table tells.
_SERIES = ["#b3261e", "#4c78a8", "#f2a93b", "#1b6e53", "#8c6bb1", "#6baed6", "#d95f9a", "#a3a31a", "#8c564b", "#7f8790"]
_WIDTH = 620
Rows = Sequence[dict[str, Any]]
Spec = dict[str, Any]

_TICKS = 8
_DIGITS = 90  # so many stand side by side across a picture
_CONFIG = {
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {"grid": False, "labelColor": _INK, "titleColor": _MUTED, "domainColor": _MUTED, "tickColor": _MUTED,
             "labelFontSize": 12},
    "text": {"fontSize": 12, "color": _INK},
    "legend": {"labelFontSize": 12, "orient": "top", "columns": 3, "labelLimit": 240, "title": None},
}  # fmt: skip


def bars(rows: Rows, title: str) -> Markup:
    """Horizontal bars in the order of the rows (verdict, from, messages): what is of this date and what is older, one
    after the other, with the number of both together."""
    colour = {"field": "from", "type": "nominal", "title": None,
              "scale": {"domain": ["of this date", "of earlier dates"], "range": [_NEW, _OLD]}}  # fmt: skip
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["verdict"]] = sums.get(row["verdict"], 0) + row["messages"]
    summed = [{**row, "sum": sums[row["verdict"]]} for row in rows]
    text = {
        "text": {"field": "sum", "type": "quantitative", "format": ",d"},
        "x": {"field": "sum", "type": "quantitative"},
    }
    return _draw(
        summed,
        title,
        width=_WIDTH,
        height={"step": 22},
        encoding={"y": _named("verdict", labelLimit=320), "x": _counted(summed, "sum")},
        layer=[
            {"mark": {"type": "bar", "height": 15},
             "encoding": {"color": colour, "x": {"field": "messages", "type": "quantitative", "stack": "zero"},
                          "order": {"field": "from", "sort": "descending"}}},
            {"mark": {"type": "text", "align": "left", "dx": 4}, "encoding": text,
             "transform": [{"filter": {"field": "from", "equal": "of this date"}}]},
        ],
    )  # fmt: skip


def columns(rows: Rows, label: str, value: str, title: str) -> Markup:
    """Vertical bars in the order of the rows, each with its number."""
    return _draw(
        rows,
        title,
        width=_WIDTH,
        height=180,
        encoding={"x": _named(label, labelAngle=0, labelLimit=80), "y": _counted(rows, value)},
        layer=[{"mark": {"type": "bar", "color": _BAR, "width": 28}}, _numbers(rows, value)],
    )


def stacked(rows: Rows, series: Sequence[str], title: str) -> Markup:
    """Vertical bars of each day made of verdicts, in the order of ``series``; rows: day, verdict, rank, messages."""
    colour = {"field": "verdict", "type": "nominal", "title": None,
              "scale": {"domain": list(series), "range": [*_SERIES, *_SERIES][: len(series)]}}  # fmt: skip
    days: dict[str, int] = {}
    for row in rows:
        days[row["day"]] = days.get(row["day"], 0) + row["messages"]
    totals = [{"day": day, "messages": total} for day, total in days.items()]
    return _draw(
        rows,
        title,
        width=_WIDTH,
        height=180,
        encoding={"x": _named("day", labelAngle=0, labelLimit=80), "y": _counted(totals, "messages")},
        layer=[
            {"mark": {"type": "bar", "width": {"band": 0.7}},
             "encoding": {"color": colour, "order": {"field": "rank", "type": "quantitative"}}},
            {"data": {"values": totals}, **_numbers(totals, "messages")},
        ],
    )  # fmt: skip


def _named(field: str, **axis: Any) -> Spec:
    return {"field": field, "type": "nominal", "sort": None, "title": None, "axis": axis}


def _counted(rows: Rows, field: str) -> Spec:
    """A scale of whole numbers: of few messages there are no halves to draw a tick at."""
    most = max((row[field] for row in rows), default=0)
    axis = {"format": ",d", "tickCount": min(max(most, 1), _TICKS)}
    return {"field": field, "type": "quantitative", "title": None, "axis": axis}


def _numbers(rows: Rows, field: str) -> Spec:
    """The number above each vertical bar: whole, or with three digits and a unit where whole ones would touch."""
    widest = max((len(f"{row[field]:,}") for row in rows), default=0)
    form = ",d" if len(rows) * (widest + 1) <= _DIGITS else ".3~s"
    text = {"field": field, "type": "quantitative", "format": form}
    return {"mark": {"type": "text", "dy": -6}, "encoding": {"text": text}}


def _draw(rows: Rows, title: str, **spec: Any) -> Markup:
    """The picture, named by its title for those who do not see it. The renderer escapes what the rows say."""
    # The renderer measures text by a font of its own, and a browser's may be wider: room is left around the picture.
    room = {"left": 24, "right": 12, "top": 5, "bottom": 5}
    whole = {"data": {"values": list(rows)}, "background": "transparent", "config": _CONFIG, "padding": room, **spec}
    svg = vl_convert.vegalite_to_svg(whole)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1))
