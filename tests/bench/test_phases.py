"""All phases with few documents: every figure is present, no document is lost. One run serves all tests."""

import json
from typing import Any

import pytest

from tests.bench.runs import SMALL, run_bench

MESSAGES = 12
FIGURES = (
    "online_per_s stored_per_s online_ack2_per_s floor_per_s floor_now_per_s floor_stored_per_s ratio_online"
    " ratio_stored ratio_online_now cpu_us p50_ms p99_ms fdatasync_p50_us fdatasync_p99_us fdatasync_max_us"
    " fsyncs_at_rate rss_mib messages size large_per_s large_p99_ms large_rss_mib_max cores"
).split()
PHASES = ["machine", "backlog", "latency", "large", "online", "stored", "floor of online", "floor of stored"]
NODES = {"hub", "a", "b", "b2"}


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    """Return the lines that one run prints: one for each phase, then the figures."""
    run = run_bench("--json", *SMALL, "--partners", "2", "--backlog", "8", "--idle", "0.2", "--large", "2")
    assert run.returncode == 0, run.stderr
    return [json.loads(line) for line in run.stdout.splitlines()]


def phase(lines: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (line,) = (line for line in lines if line.get("phase") == name)
    return line


def test_each_phase_prints_a_line_and_the_last_line_has_all_figures(lines: list[dict[str, Any]]) -> None:
    assert [line["phase"] for line in lines[:-1]] == PHASES
    assert all(lines[-1][name] > 0 for name in FIGURES)
    assert (lines[-1]["messages"], lines[-1]["size"], lines[-1]["rows_left"]) == (MESSAGES, 100, 0)


def test_every_document_arrives_once_and_whole(lines: list[dict[str, Any]]) -> None:
    assert (lines[-1]["missing"], lines[-1]["repeated"], lines[-1]["damaged"]) == (0, 0, 0)


def test_the_sustained_rate_includes_the_cleanup(lines: list[dict[str, Any]]) -> None:
    line = phase(lines, "online")
    assert line["per_s"] <= line["ack2_per_s"]
    assert line["clean_s"] >= 0


@pytest.mark.parametrize("name", ["online", "stored"])
def test_processor_time_is_that_of_the_nodes_and_their_postgres(lines: list[dict[str, Any]], name: str) -> None:
    line = phase(lines, name)
    by_process = line["cpu_us_by_process"]
    assert set(by_process) == {"load"} | NODES | {f"{node} postgres" for node in NODES}
    assert line["cpu_us"] == pytest.approx(sum(by_process.values()) - by_process["load"], abs=0.5)
    assert all(used >= 0 for used in by_process.values())


@pytest.mark.parametrize("name", ["online", "stored"])
def test_the_write_ahead_log_of_every_node_grows_and_is_forced_to_disk(lines: list[dict[str, Any]], name: str) -> None:
    line = phase(lines, name)
    for figure in ("wal_bytes_per_message", "fsyncs_per_message"):
        assert set(line[figure]) == NODES
        assert all(value > 0 for value in line[figure].values())


@pytest.mark.parametrize(
    ("name", "nodes", "table"),
    [
        ("online", ["a"], "tb_0031"),
        ("online", ["b", "b2"], "tb_0030"),
        ("stored", ["a"], "tb_0031"),
        ("stored", ["hub"], "tb_0031"),
        ("stored", ["b", "b2"], "tb_0030"),
    ],
)
def test_each_document_is_inserted_and_deleted_once_in_each_queue(
    lines: list[dict[str, Any]], name: str, nodes: list[str], table: str
) -> None:
    changes = [phase(lines, name)["rows_per_message"][node][table] for node in nodes]
    inserted = sum(change[0] for change in changes)
    deleted = sum(change[2] for change in changes)
    assert (inserted, deleted) == (1, 1)


def test_the_ledger_of_every_node_grows(lines: list[dict[str, Any]]) -> None:
    for name in ("online", "stored"):
        tables = phase(lines, name)["rows_per_message"]
        assert all(tables[node]["semq_ledger"][0] > 0 for node in NODES)


def test_the_backlog_waits_during_all_phases_and_is_left_out_of_the_figures(lines: list[dict[str, Any]]) -> None:
    line = phase(lines, "backlog")
    assert line["messages"] == 8
    assert set(line["idle_percent_of_a_core"]) == NODES | {f"{node} postgres" for node in NODES}
    assert phase(lines, "online")["rows_peak"]["a"] <= MESSAGES


def test_the_floor_repeats_the_reference_and_names_later_changes(lines: list[dict[str, Any]]) -> None:
    for name in ("online", "stored"):
        line = phase(lines, f"floor of {name}")
        assert set(line["batches"]) == NODES
        for tables in line["changed"].values():
            assert all(set(table) == {"reference", "now"} for table in tables.values())
