"""The charts of the report as SVG with real text, drawn without a browser or a network. Every chart has its table on
the page.

Colours are those of a palette that colour-blind readers can tell apart; every bar carries its number, so none depends
on colour.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

_FONT = "system-ui, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif"
_INK, _MUTED, _BAD, _OPEN, _FINE = "#1f2933", "#7b8794", "#b3261e", "#8a6d00", "#1b6e53"
KIND_COLOURS = {"exception": _BAD, "open": _OPEN, "fine": _FINE}
_WIDTH = 620
Rows = Sequence[dict[str, Any]]


def bars(rows: Rows, label: str, value: str, title: str, *, kind: str = "") -> Markup:
    """Horizontal bars in the order of the rows, each with its number; ``kind`` names the column that colours them."""
    base = alt.Chart(_data(rows)).encode(
        y=alt.Y(f"{label}:N", sort=None, title=None, axis=alt.Axis(labelLimit=260)),
        x=alt.X(f"{value}:Q", title=None, axis=alt.Axis(format=",d", tickMinStep=1)),
    )
    colour: Any = alt.value(_INK)
    if kind:
        domain = list(KIND_COLOURS)
        colour = alt.Color(
            f"{kind}:N", scale=alt.Scale(domain=domain, range=[KIND_COLOURS[k] for k in domain]), legend=None
        )
    chart = base.mark_bar(height=15).encode(color=colour) + _numbers(base, value)
    return _svg(chart.properties(width=_WIDTH, height=alt.Step(22)), title)


def columns(rows: Rows, label: str, value: str, title: str) -> Markup:
    """Vertical bars in the order of the rows, each with its number."""
    base = alt.Chart(_data(rows)).encode(
        x=alt.X(f"{label}:N", sort=None, title=None, axis=alt.Axis(labelAngle=0, labelLimit=80)),
        y=alt.Y(f"{value}:Q", title=None, axis=alt.Axis(format=",d", tickMinStep=1)),
    )
    text = base.mark_text(dy=-6, color=_INK).encode(text=alt.Text(f"{value}:Q", format=",d"))
    return _svg((base.mark_bar(color=_INK, width=28) + text).properties(width=_WIDTH, height=180), title)


def stacked(rows: Rows, label: str, value: str, series: str, title: str) -> Markup:
    """Vertical bars made of series: exceptions of each date by verdict."""
    chart = (
        alt.Chart(_data(rows))
        .mark_bar()
        .encode(
            x=alt.X(f"{label}:N", title=None, axis=alt.Axis(labelAngle=0, labelLimit=80)),
            y=alt.Y(f"{value}:Q", title=None, axis=alt.Axis(format=",d", tickMinStep=1)),
            color=alt.Color(
                f"{series}:N",
                title=None,
                scale=alt.Scale(scheme="tableau10"),
                legend=alt.Legend(orient="top", columns=4, labelLimit=220),
            ),
            order=alt.Order(f"{series}:N"),
        )
        .properties(width=_WIDTH, height=180)
    )
    return _svg(chart, title)


def heat(rows: Rows, title: str) -> Markup:
    """Senders against receivers: exceptions as number and shade."""
    base = alt.Chart(_data(rows)).encode(
        x=alt.X("receiver:N", title="receiver", axis=alt.Axis(labelAngle=-35, orient="top")),
        y=alt.Y("sender:N", title="sender"),
    )
    most = max((row["exceptions"] for row in rows), default=0)
    shade = base.mark_rect(stroke="#d9dee4").encode(
        color=alt.Color(
            "exceptions:Q", legend=None, scale=alt.Scale(domain=[0, max(most, 1)], range=["#ffffff", "#c9564c"])
        )
    )
    text = base.mark_text(color=_INK).encode(text=alt.Text("exceptions:Q", format=",d"))
    return _svg((shade + text).properties(width=alt.Step(64), height=alt.Step(26)), title)


def _data(rows: Rows) -> Any:
    return alt.Data(values=list(rows))  # type: ignore[no-untyped-call]


def _numbers(base: alt.Chart, value: str) -> Any:
    return base.mark_text(align="left", dx=4, color=_INK).encode(text=alt.Text(f"{value}:Q", format=",d"))


def _svg(chart: Any, title: str) -> Markup:
    styled = (
        chart.properties(description=title, background="transparent")
        .configure(font=_FONT)
        .configure_view(stroke=None)
        .configure_axis(
            grid=False, labelColor=_INK, titleColor=_MUTED, domainColor=_MUTED, tickColor=_MUTED, labelFontSize=12
        )
        .configure_text(fontSize=12)
        .configure_legend(labelFontSize=12)
    )
    return Markup(vl_convert.vegalite_to_svg(styled.to_dict()))
