"""Runs of ``./run bench`` that are interrupted or lose a node; arguments and help."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import OTHERS, main
from tests.bench.runs import interrupt, kill_a, processes_of, run_disturbed, terminate


@pytest.mark.parametrize(
    ("disturb", "status", "line"),
    [
        (kill_a, 1, "no figures: A node ended unexpectedly; its log has the reason. a, with status -9"),
        (interrupt, 130, "interrupted, so there are no figures"),
        (terminate, 130, "interrupted, so there are no figures"),
    ],
)
def test_a_disturbed_run_ends_without_figures_files_or_processes(
    tmp_path: Path, disturb: Callable[[Any, dict[str, int]], None], status: int, line: str
) -> None:
    exit_status, output = run_disturbed(tmp_path, disturb)
    assert (exit_status, line in output) == (status, True), output
    assert list(tmp_path.iterdir()) == []
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("arguments", [["--messages", "0"], ["--size", "7"], ["--rate", "0"], ["--partners", "-1"]])
def test_arguments_out_of_range_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], *([name] for name in OTHERS)])
def test_every_command_has_help(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([*command, "--help"])
    assert exit_info.value.code == 0
    assert "--json" in capsys.readouterr().out
