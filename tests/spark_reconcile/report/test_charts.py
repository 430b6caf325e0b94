"""Charts: real text, also in Chinese, every number on its bar, and safe with hostile texts."""

import re
from importlib import resources
from xml.etree import ElementTree as ET

from spark_reconcile.report import charts
from spark_reconcile.report.figures import VerdictFigures

SVG = "{http://www.w3.org/2000/svg}"


def picture(chart: str) -> ET.Element:
    return next(ET.fromstring(f"<figure>{chart}</figure>").iter(f"{SVG}svg"))


def texts(chart: str) -> list[str]:
    return [element.text or "" for element in picture(chart).iter(f"{SVG}text")]


def bars_of(chart: str) -> dict[str, tuple[str, list[float]]]:
    """Return the bars for narrow screens: by name, the text of the number, and the widths of the parts in percent."""
    rows = ET.fromstring(f"<figure>{chart}</figure>").iter("li")
    return {
        name.text or "": (text.text or "", [float(one.attrib["style"][6:].split("%")[0]) for one in parts])
        for name, text, parts in rows
    }


def test_a_chart_has_real_text_also_in_chinese_and_escapes_foreign_text() -> None:
    rows = [{"n": "上海机构", "v": 1200}, {"n": "<script>1", "v": 3}]
    chart = charts.columns(rows, "n", "v", 'by "node" <b>')
    assert {"上海机构", "<script>1", "1,200", "3"} <= set(texts(chart))
    assert "<script" not in chart
    assert picture(chart).attrib["aria-label"] == 'by "node" <b>'


def test_each_bar_has_its_number() -> None:
    figures = {"A": VerdictFigures(4, 2, 3), "B": VerdictFigures(0, 0, 5)}
    rows = [
        {"verdict": name, "called": f"{name} 一", "from": part, "messages": count}
        for name, verdict_figures in figures.items()
        for part, count in verdict_figures.parts
    ]
    chart = charts.bars(rows, "bars")
    drawn = texts(chart)
    assert [text for text in drawn if text in ("A 一", "B 一")] == ["A 一", "B 一"]
    assert {"4 + 2 + 3", "5", *charts.PARTS} <= set(drawn)


def test_narrow_screens_have_the_same_numbers_in_bars_of_relative_width() -> None:
    parts = VerdictFigures(3_000_000, 0, 1_000_000).parts
    rows = [{"verdict": "STATE_CONTRADICTION", "called": "x", "from": part, "messages": n} for part, n in parts]
    assert bars_of(charts.bars(rows, "b")) == {"STATE_CONTRADICTION": ("3,000,000 + 1,000,000", [75.0, 25.0])}
    days = [{"day": "11-20", "n": 8}, {"day": "<i>", "n": 2}, {"day": "11-22", "n": 0}]
    assert bars_of(charts.columns(days, "day", "n", "c")) == {
        "11-20": ("8", [100.0]),
        "<i>": ("2", [25.0]),
        "11-22": ("0", []),
    }
    stacked = [{"day": "11-20", "verdict": name, "rank": 0, "messages": 1} for name in "AB"]
    assert bars_of(charts.stacked(stacked, "AB", "s")) == {"11-20": ("2", [50.0, 50.0])}
    assert bars_of(charts.columns([{"day": "1", "n": 0}], "day", "n", "c")) == {"1": ("0", [])}


def test_the_style_of_the_page_has_a_rule_for_every_class_of_a_chart_for_narrow_screens() -> None:
    style = (resources.files("spark_reconcile.report") / "style.html").read_text()
    ruled = set(re.findall(r"[.]([a-z][a-z-]*)", style))
    parts = [{"verdict": "A", "called": "A", "from": part, "messages": 1} for part in charts.PARTS]
    narrow = ET.fromstring(f"<figure>{charts.bars(parts, 'b')}</figure>").find("div[@class='narrow-only']")
    assert narrow is not None
    used = {name for element in narrow.iter() for name in element.get("class", "").split()}
    assert {"narrow-only", "key"} < used <= ruled


def test_stacked_bars_keep_the_order_of_their_series_and_have_their_sum() -> None:
    rows = [
        {"day": "11-20", "verdict": "Z", "rank": 0, "messages": 7},
        {"day": "11-20", "verdict": "A", "rank": 1, "messages": 6},
        {"day": "11-21", "verdict": "Z", "rank": 0, "messages": 0},
    ]
    drawn = texts(charts.stacked(rows, ["Z", "A"], "stacked"))
    assert [text for text in drawn if text in ("Z", "A")] == ["Z", "A"]
    assert {"13", "0", "11-20", "11-21"} <= set(drawn)


def test_numbers_that_would_touch_are_shortened() -> None:
    def drawn(most: int, days: int) -> set[str]:
        rows = [{"day": f"11-{day:02}", "messages": most - day} for day in range(days)]
        return set(texts(charts.columns(rows, "day", "messages", "columns")))

    assert "10,123,456" in drawn(10_123_456, 3)
    assert "10.1M" in drawn(10_123_456, 14)
    assert "999" in drawn(999, 14)


def test_entries_of_the_legend_stand_below_one_another_so_that_wider_fonts_make_none_overlap() -> None:
    rows = [
        {"verdict": "A", "called": "A", "from": part, "messages": number}
        for part, number in VerdictFigures(4, 2, 3).parts
    ]
    legend = next(
        group
        for group in picture(charts.bars(rows, "x")).iter(f"{SVG}g")
        if "role-legend-entry" in group.get("class", "")
    )
    places = [re.findall(r"-?[0-9.]+", group.get("transform", "")) for group in legend.iter(f"{SVG}g")]
    columns, lines = zip(*(place for place in places if len(place) == 2), strict=True)
    assert (set(columns), len(set(lines))) == ({"0"}, len(charts.PARTS))
