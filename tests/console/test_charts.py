"""Charts of documents over time."""

from typing import Any

import pytest

from semq.console.charts import _nice, _path, axis, charts_of, latency_text


def test_a_chart_has_a_path_and_a_text_for_each_figure() -> None:
    points: list[dict[str, Any]] = [
        {"at": 0, "backlog": {"sender": 1, "inbox": 0}},
        {
            "at": 60_000, "documents": {"accepted": 3, "failed": 1}, "backlog": {"sender": 3, "inbox": 0},
            "latency": {"delivered": {"median_ms": 10}},
        },
    ]  # fmt: skip
    traffic: dict[str, Any] = {
        "period": "hour", "points": points, "documents": {"accepted": 1003, "failed": 1},
        "backlog": {"sender": 3, "inbox": 0}, "latency": {"delivered": {"median_ms": 10}},
    }  # fmt: skip
    sent, _received, backlog, delivery, inbox = charts_of(str, traffic, "local")
    assert sent.text == "Sent: accepted 1,003, delivered 0, failed 1"
    assert (sent.scale, backlog.scale) == ("0 – 5", "0 – 5")
    assert sent.series[0].path == "M0.0,70.0V70.0H150.0V70.0M150.0,70.0V30.4H300.0V70.0"
    assert sent.series[2].path == "M0.0,70.0H150.0V56.8H300.0"
    assert backlog.text == "Backlog: sent and not ended 3, received and not processed 0"
    assert delivery.text == "Time to delivery: median ≤ 10 ms, 99 % > 1 d"
    assert (inbox.text, inbox.series[0].path) == ("Time in the inbox: median –, 99 % –", "")
    assert axis(traffic) == ("00:00", "00:01")
    assert axis(traffic | {"period": "week"}) == ("01-01", "01-01")


def test_a_line_has_a_gap_where_no_document_has_a_latency() -> None:
    assert _path([0.0, None, 1.0, 1.0], filled=False) == "M0.0,70.0H75.0M150.0,4.0H225.0V4.0H300.0"


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (3, 5), (10, 10), (11, 20), (99, 100), (501, 1000)])
def test_the_upper_edge_is_a_round_number(most: int, top: int) -> None:
    assert _nice(most) == top


@pytest.mark.parametrize(
    ("bound_ms", "text"), [(200, "≤ 200 ms"), (5000, "≤ 5 s"), (300_000, "≤ 5 min"), (86_400_000, "≤ 1 d")]
)
def test_a_latency_is_an_upper_bound(bound_ms: int, text: str) -> None:
    assert latency_text(bound_ms) == text
