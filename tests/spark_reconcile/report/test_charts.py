"""Charts: real text, in Chinese too, every number on the bar, and harmless whatever other institutions wrote."""

from xml.etree import ElementTree as ET

from spark_reconcile.report import charts

SVG = "{http://www.w3.org/2000/svg}"


def texts(chart: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(chart).iter(f"{SVG}text")]


def test_a_chart_is_real_text_in_chinese_too_and_escapes_what_it_is_given() -> None:
    rows = [{"n": "上海机构", "v": 1200}, {"n": "<script>1", "v": 3}]
    chart = charts.columns(rows, "n", "v", 'by "node" <b>')
    assert {"上海机构", "<script>1", "1,200", "3"} <= set(texts(chart))
    assert "<script" not in chart
    assert ET.fromstring(chart).attrib["aria-label"] == 'by "node" <b>'


def test_bars_tell_what_is_old_and_carry_the_number_of_both() -> None:
    rows = [
        {"verdict": "A", "from": "of this date", "messages": 4}, {"verdict": "A", "from": "of earlier dates", "messages": 3},
        {"verdict": "B", "from": "of this date", "messages": 0}, {"verdict": "B", "from": "of earlier dates", "messages": 5},
    ]  # fmt: skip
    drawn = texts(charts.bars(rows, "bars"))
    assert [text for text in drawn if text in ("A", "B")] == ["A", "B"]
    assert {"7", "5", "of this date", "of earlier dates"} <= set(drawn)


def test_stacked_bars_keep_the_order_of_their_series_and_carry_their_sum() -> None:
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
