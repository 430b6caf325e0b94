"""The charts of the report, drawn without browser or network: SVG with real text, and for narrow screens bars of HTML.

A picture is a Vega-Lite specification as plain data; ``vl_convert`` draws it. Every bar has its number, and every chart
its table on the page, so no information depends on colour.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import vl_convert
from markupsafe import Markup, escape

from spark_reconcile.report.figures import FOUND_NOW, KNOWN_BEFORE, OF_THIS_DATE

_FONT = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
_INK, _MUTED, _BAR = "#1f2933", "#5b6774", "#44627d"
_OF_DATE_COLOUR, _FOUND_NOW_COLOUR, _KNOWN_COLOUR = "#b3261e", "#d9776f", "#ecc3bf"
PARTS = (OF_THIS_DATE, FOUND_NOW, KNOWN_BEFORE)
_SERIES = ["#b3261e", "#4c78a8", "#f2a93b", "#1b6e53", "#8c6bb1", "#6baed6", "#d95f9a", "#a3a31a", "#8c564b", "#7f8790"]
_WIDTH = 620
_DIGIT_WIDTH = 8  # pixels
Rows = Sequence[dict[str, Any]]
Spec = dict[str, Any]

_TICKS_MAX = 8
_DIGITS_MAX = 90  # digits that fit side by side into a picture
_CONFIG = {
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {"grid": False, "labelColor": _INK, "titleColor": _MUTED, "domainColor": _MUTED, "tickColor": _MUTED,
             "labelFontSize": 12},
    "text": {"fontSize": 12, "color": _INK},
    "legend": {"labelFontSize": 12, "orient": "top", "columns": 1, "labelLimit": 480, "title": None},
}  # fmt: skip


def bars(rows: Rows, title: str) -> Markup:
    """Return a horizontal bar with its numbers for each verdict, in the order of the rows.

    Rows: verdict, called (its name in both languages), from (one of PARTS), messages; those of one verdict together.
    """
    parts: dict[str, list[tuple[str, int]]] = {}
    for row in rows:
        parts.setdefault(row["verdict"], []).append((row["from"], row["messages"]))
    texts = {verdict: " + ".join(f"{count:,}" for _, count in counts if count) for verdict, counts in parts.items()}
    figures = [
        {**row, "all": sum(count for _, count in parts[row["verdict"]]), "text": texts[row["verdict"]]} for row in rows
    ]
    colours = dict(zip(PARTS, (_OF_DATE_COLOUR, _FOUND_NOW_COLOUR, _KNOWN_COLOUR), strict=True))
    colour = {"field": "from", "type": "nominal", "title": None,
              "scale": {"domain": list(colours), "range": list(colours.values())}}  # fmt: skip
    numbers_width = _DIGIT_WIDTH * max(map(len, texts.values()), default=0)
    longest = max((row["all"] for row in figures), default=1)
    scale = {"domainMax": longest * _WIDTH / max(_WIDTH - numbers_width, _WIDTH / 2)}
    wide = {
        "data": {"values": figures},
        "width": _WIDTH,
        "height": {"step": 22},
        "encoding": {"y": _named("called", labelLimit=320), "x": {**_counted(figures, "all"), "scale": scale}},
        "layer": [
            {"mark": {"type": "bar", "height": 15},
             "encoding": {"color": colour, "x": {"field": "messages", "type": "quantitative", "stack": "zero"},
                          "order": {"field": "from", "sort": "descending"}}},
            {"mark": {"type": "text", "align": "left", "dx": 4},
             "encoding": {"text": {"field": "text"}, "x": {"field": "all", "type": "quantitative"}},
             "transform": [{"filter": {"field": "from", "equal": PARTS[0]}}]},
        ],
    }  # fmt: skip
    narrow_rows = [
        (verdict, texts[verdict], [(count, colours[part]) for part, count in counts])
        for verdict, counts in parts.items()
    ]
    return _both(wide, _narrow(narrow_rows, title, colours), title)


def columns(rows: Rows, label: str, value: str, title: str) -> Markup:
    """Return a vertical bar for each row, horizontal on narrow screens. ``label``, ``value``: fields of
    a row with the text and the height of its bar."""
    wide = {
        "data": {"values": list(rows)},
        "width": _WIDTH,
        "height": 180,
        "encoding": {"x": _named(label, labelAngle=0, labelLimit=80), "y": _counted(rows, value)},
        "layer": [{"mark": {"type": "bar", "color": _BAR, "width": 28}}, _numbers(rows, value)],
    }
    narrow_rows = [(row[label], f"{row[value]:,}", [(row[value], _BAR)]) for row in rows]
    return _both(wide, _narrow(narrow_rows, title), title)


def stacked(rows: Rows, series: Sequence[str], title: str) -> Markup:
    """Return stacked bars of verdicts (``series``) for each day; rows: day, verdict, rank, messages."""
    colours = dict(zip(series, [*_SERIES, *_SERIES], strict=False))
    colour = {"field": "verdict", "type": "nominal", "title": None,
              "scale": {"domain": list(colours), "range": list(colours.values())}}  # fmt: skip
    days: dict[str, list[tuple[int, str]]] = {}
    for row in rows:
        days.setdefault(row["day"], []).append((row["messages"], colours[row["verdict"]]))
    totals = [{"day": day, "messages": sum(count for count, _ in parts)} for day, parts in days.items()]
    wide = {
        "data": {"values": list(rows)},
        "width": _WIDTH,
        "height": 180,
        "encoding": {"x": _named("day", labelAngle=0, labelLimit=80), "y": _counted(totals, "messages")},
        "layer": [
            {"mark": {"type": "bar", "width": {"band": 0.7}},
             "encoding": {"color": colour, "order": {"field": "rank", "type": "quantitative"}}},
            {"data": {"values": totals}, **_numbers(totals, "messages")},
        ],
    }  # fmt: skip
    narrow_rows = [(day, f"{sum(count for count, _ in parts):,}", parts) for day, parts in days.items()]
    return _both(wide, _narrow(narrow_rows, title, colours), title)


# The bars of a narrow screen: name, formatted number, and each part with its colour.
NarrowRows = Sequence[tuple[str, str, Sequence[tuple[int, str]]]]


def _narrow(rows: NarrowRows, title: str, keys: Mapping[str, str] | None = None) -> Markup:
    """Return bars for a narrow screen. ``keys``: colours by name, for the legend."""
    most = max((sum(count for count, _ in parts) for _, _, parts in rows), default=0) or 1
    segment = Markup('<i style="width:{}%;background:{}"></i>').format
    key = Markup('<span class="key"><i style="background:{}"></i>{}</span>').format
    bar = Markup(
        '<li><span>{}</span> <span class="n">{}</span><span class="narrow-bar" aria-hidden="true">{}</span></li>'
    )
    drawn = (
        bar.format(name, text, Markup("").join(segment(f"{100 * n / most:.2f}", colour) for n, colour in parts if n))
        for name, text, parts in rows
    )
    legend = Markup("").join(key(colour, name) for name, colour in (keys or {}).items())
    return Markup('<p>{}</p><ul aria-label="{}">{}</ul>').format(legend, title, Markup("").join(drawn))


def _both(wide: Spec, narrow: Markup, title: str) -> Markup:
    return Markup('<div class="wide-only">{}</div><div class="narrow-only">{}</div>').format(_draw(wide, title), narrow)


def _named(field: str, **axis: Any) -> Spec:
    return {"field": field, "type": "nominal", "sort": None, "title": None, "axis": axis}


def _counted(rows: Rows, field: str) -> Spec:
    """Return an axis of whole numbers, with no more ticks than the largest number, so that no tick is a fraction."""
    most = max((row[field] for row in rows), default=0)
    axis = {"format": ",d", "tickCount": min(max(most, 1), _TICKS_MAX)}
    return {"field": field, "type": "quantitative", "title": None, "axis": axis}


def _numbers(rows: Rows, field: str) -> Spec:
    """Return the number above each vertical bar, shortened to three digits and a unit if complete ones would touch."""
    widest = max((len(f"{row[field]:,}") for row in rows), default=0)
    form = ",d" if len(rows) * (widest + 1) <= _DIGITS_MAX else ".3~s"
    text = {"field": field, "type": "quantitative", "format": form}
    return {"mark": {"type": "text", "dy": -6}, "encoding": {"text": text}}


def _draw(spec: Spec, title: str) -> Markup:
    """Return the picture, with its title for screen readers. ``vl_convert`` escapes texts of rows."""
    # The padding is for browsers whose font is wider than that of ``vl_convert``.
    padding = {"left": 24, "right": 12, "top": 5, "bottom": 5}
    svg = vl_convert.vegalite_to_svg({"background": "transparent", "config": _CONFIG, "padding": padding, **spec})
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1))
