"""The costs of a document by process, as a table, and the calls that strace counts."""

import json
import os

import pytest

from bench.versions import everyday


def test_calls_are_read_from_the_table_of_strace() -> None:
    table = (
        "% time     seconds  usecs/call     calls    errors syscall\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        " 61.03    0.056178          21      2643           epoll_pwait\n"
        "  8.71    0.008015          11       706        12 recvfrom\n"
        "------ ----------- ----------- --------- --------- ----------------\n"
        "100.00    0.092044          14      6231        12 total\n"
    )
    assert everyday.CALL.findall(table) == [("2643", "epoll_pwait"), ("706", "recvfrom"), ("6231", "total")]


def test_processes_that_have_ended_use_nothing() -> None:
    assert everyday._used([2**22 + 1]) == {}
    assert everyday._used([os.getpid()])["wake-ups"] > 0


def test_a_short_run_has_a_row_for_each_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert everyday.main(["--json", "--rate", "20", "--seconds", "0.5", "--size", "100"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {f"{node}{of}" for node in ("hub", "a", "b") for of in ("", " postgres")}
    assert set(found["processes"]) == rows
    assert found["processes"]["a"]["needed"] == 4
    assert everyday.summary(found).count("\n") == 1 + len(rows)
