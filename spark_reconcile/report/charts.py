"""The charts of the report as SVG with real text, drawn without browser or network. Each has its table on the page.

A chart is a Vega-Lite specification, written out as the plain facts that it is; the renderer draws it. Colours are
those that colour-blind readers can tell apart, and every bar carries its number, so none depends on colour.
"""

from collections.abc import Sequence
from typing import Any

import vl_convert
from markupsafe import Markup, escape

_FONT = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
_INK, _MUTED, _LINE = "#1f2933", "#5b6774", "#d9dee4"
_KINDS = {"exception": "#b3261e", "open": "#8a6d00", "fine": "#1b6e53"}
_SERIES = ["#4c78a8", "#f58518", "#e45756", "#72b7b2", "#54a24b", "#b89b00", "#b279a2", "#ff9da6", "#9d755d", "#8c8c8c"]
_WIDTH = 620
Rows = Sequence[dict[str, Any]]
Spec = dict[str, Any]

_TICKS = 8
_CONFIG = {
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {"grid": False, "labelColor": _INK, "titleColor": _MUTED, "domainColor": _MUTED, "tickColor": _MUTED,
             "labelFontSize": 12},
    "text": {"fontSize": 12, "color": _INK},
    "legend": {"labelFontSize": 12, "orient": "top", "columns": 3, "labelLimit": 240, "title": None},
}  # fmt: skip


def bars(rows: Rows, label: str, value: str, title: str, *, kind: str) -> Markup:
    """Horizontal bars in the order of the rows, each with its number; ``kind`` names the column that colours them."""
    colour = {"field": kind, "type": "nominal", "legend": None,
              "scale": {"domain": list(_KINDS), "range": list(_KINDS.values())}}  # fmt: skip
    return _draw(
        rows,
        title,
        width=_WIDTH,
        height={"step": 22},
        encoding={"y": _named(label, labelLimit=320), "x": _counted(rows, value)},
        layer=[
            {"mark": {"type": "bar", "height": 15}, "encoding": {"color": colour}},
            _numbers(value, align="left", dx=4),
        ],
    )


def columns(rows: Rows, label: str, value: str, title: str) -> Markup:
    """Vertical bars in the order of the rows, each with its number."""
    return _draw(
        rows,
        title,
        width=_WIDTH,
        height=180,
        encoding={"x": _named(label, labelAngle=0, labelLimit=80), "y": _counted(rows, value)},
        layer=[{"mark": {"type": "bar", "color": _INK, "width": 28}}, _numbers(value, dy=-6)],
    )


def stacked(rows: Rows, label: str, value: str, series: str, title: str) -> Markup:
    """Vertical bars made of series, such as the exceptions of each date by verdict."""
    colour = {"field": series, "type": "nominal", "title": None, "scale": {"range": _SERIES}}
    return _draw(
        rows,
        title,
        width=_WIDTH,
        height=180,
        mark="bar",
        encoding={"x": _named(label, labelAngle=0, labelLimit=80), "y": _counted(rows, value), "color": colour},
    )


def heat(rows: Rows, title: str) -> Markup:
    """Senders against receivers: exceptions as number and shade."""
    most = max((row["exceptions"] for row in rows), default=0)
    shade = {"field": "exceptions", "type": "quantitative", "legend": None,
             "scale": {"domain": [0, max(most, 1)], "range": ["#ffffff", "#e08a80"]}}  # fmt: skip
    sender = {**_named("sender", labelLimit=240, titlePadding=12), "title": "sender"}
    receiver = {**_named("receiver", labelAngle=-35, labelLimit=240, orient="top"), "title": "receiver"}
    return _draw(
        rows,
        title,
        width={"step": 64},
        height={"step": 26},
        encoding={"x": receiver, "y": sender},
        layer=[{"mark": {"type": "rect", "stroke": _LINE}, "encoding": {"color": shade}}, _numbers("exceptions")],
    )


def _named(field: str, **axis: Any) -> Spec:
    return {"field": field, "type": "nominal", "sort": None, "title": None, "axis": axis}


def _counted(rows: Rows, field: str) -> Spec:
    """A scale of whole numbers: of few messages there are no halves to draw a tick at."""
    most = max((row[field] for row in rows), default=0)
    axis = {"format": ",d", "tickCount": min(max(most, 1), _TICKS)}
    return {"field": field, "type": "quantitative", "title": None, "axis": axis}


def _numbers(field: str, **mark: Any) -> Spec:
    text = {"field": field, "type": "quantitative", "format": ",d"}
    return {"mark": {"type": "text", **mark}, "encoding": {"text": text}}


def _draw(rows: Rows, title: str, **spec: Any) -> Markup:
    """The picture, named by its title for those who do not see it. The renderer escapes what the rows say."""
    # The renderer measures text by a font of its own, and a browser's may be wider: room is left around the picture.
    room = {"left": 24, "right": 12, "top": 5, "bottom": 5}
    whole = {"data": {"values": list(rows)}, "background": "transparent", "config": _CONFIG, "padding": room, **spec}
    svg = vl_convert.vegalite_to_svg(whole)
    return Markup(svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1))
