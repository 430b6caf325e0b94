"""Figures over time as a table."""

from typing import Any

from semq.cli.monitoring.figures import _cells


def test_a_row_has_its_documents_backlog_and_upper_bounds_of_the_latency() -> None:
    point: dict[str, Any] = {
        "at": None, "documents": {"accepted": 3}, "backlog": {"sender": 2},
        "latency": {"delivered": {"buckets": {"200": 1}, "median_ms": 200}},
    }  # fmt: skip
    assert list(_cells(point, ["accepted", "failed"], ["sender"], ["delivered"])) == ["", 3, 0, 2, "≤ 200 ms; > 1 d"]
    sums: dict[str, Any] = {"latency": {"delivered": {"median_ms": 2000, "p99_ms": 30_000}}}
    assert list(_cells(sums, [], [], ["delivered", "processed"])) == ["in all", "≤ 2 s; ≤ 30 s", ""]
