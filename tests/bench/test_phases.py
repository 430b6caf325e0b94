"""All phases with few documents: every figure is there, no document is lost. No duration is looked at.

One run serves all tests of the module: it starts three nodes.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

MESSAGES = 40
FIGURES = (
    "online_per_s stored_per_s floor_per_s floor_stored_per_s ratio_online ratio_stored p50_ms p99_ms messages size"
).split()
PHASES = ["machine", "online", "floor of online", "stored", "floor of stored", "latency"]


@pytest.fixture(scope="module")
def lines() -> list[dict[str, Any]]:
    argv = [sys.executable, "-P", "-m", "bench", "--json", "--messages", str(MESSAGES), "--size", "100"]
    done = subprocess.run([*argv, "--rate", "200"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_phase_is_a_line_and_the_last_one_holds_the_figures(lines: list[dict[str, Any]]) -> None:
    assert [line["phase"] for line in lines[:-1]] == PHASES
    assert all(lines[-1][name] > 0 for name in FIGURES)
    assert (lines[-1]["messages"], lines[-1]["size"]) == (MESSAGES, 100)


def test_every_document_arrives_once_and_whole(lines: list[dict[str, Any]]) -> None:
    assert (lines[-1]["missing"], lines[-1]["repeated"], lines[-1]["damaged"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("phase", "node", "table"),
    [
        ("online", "a", "tb_0031"),
        ("online", "b", "tb_0030"),
        ("stored", "a", "tb_0031"),
        ("stored", "hub", "tb_0031"),
        ("stored", "b", "tb_0030"),
    ],
)
def test_each_document_has_come_and_gone_once_in_each_queue(
    lines: list[dict[str, Any]], phase: str, node: str, table: str
) -> None:
    (line,) = (line for line in lines if line.get("phase") == phase)
    inserted, _, deleted = line["rows_per_message"][node][table]
    assert (inserted, deleted) == (1, 1)


def test_the_ledger_of_every_node_grows(lines: list[dict[str, Any]]) -> None:
    for line in lines[1:4:2]:
        assert all(tables["semq_ledger"][0] >= 1 for tables in line["rows_per_message"].values())
