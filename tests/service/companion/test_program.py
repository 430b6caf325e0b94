"""A companion of a node: restarted when it ends, stopped with the node, and ended if the node dies."""

import asyncio
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from semq.clock import SystemClock
from semq.service.companion.program import Companion, Program
from tests.waiting import until

SERVES = ("http.server", ("0", "--bind", "127.0.0.1"))


def companion(module: str, *arguments: str) -> Companion:
    return Companion(Program(module), arguments, dict, SystemClock())


async def test_a_program_that_ends_is_started_again() -> None:
    ends = companion("this")
    ends.start()
    await until(lambda: ends.starts > 1 and not ends.is_running)
    assert ends.exit_status == 0
    await ends.stop()
    assert not ends.is_running


async def test_a_program_ends_with_its_node() -> None:
    serves = companion(SERVES[0], *SERVES[1])
    await serves.stop()  # no process exists yet
    serves.start()
    await until(lambda: serves.is_running)
    await serves.stop()
    assert not serves.is_running
    assert serves.starts == 1


async def test_a_program_reads_the_end_of_its_node_from_its_input() -> None:
    text = "import sys; sys.exit(len(sys.stdin.read()))"
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", text, stdin=asyncio.subprocess.PIPE)
    assert child.stdin is not None
    child.stdin.close()
    async with asyncio.timeout(60):
        assert await child.wait() == 0


async def test_a_program_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    serves = companion(SERVES[0], *SERVES[1])
    with monkeypatch.context() as without, capture_logs() as result:
        without.setattr(sys, "executable", "/no/such/program")
        serves.start()
        await until(lambda: any(line["event"] == "companion_not_started" for line in result))
    await until(lambda: serves.is_running)
    await serves.stop()


REPORTS = """
import sys, time
from semq.clock import SystemClock
from semq.errors import SemqError
from semq.service.companion.sections import _report
from semq.service.companion.section_states import SectionStates

states = SectionStates(_report, SystemClock())
print("x" * 100_000, flush=True)
states.failed("erp", SemqError("no answer"))
sys.stdin.read()
"""


async def test_a_node_reports_the_failing_sections_of_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a line that is too long."""
    (tmp_path / "reporting.py").write_text(REPORTS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    reports = companion("reporting")
    reports.start()
    await until(lambda: list(reports.states.failing) == ["erp"])
    reports.states.update(b'{"section": "erp", "failing": null}\n')
    assert reports.states.status() == {}
    await reports.stop()


async def test_states_end_with_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ending.py").write_text(REPORTS.replace("sys.stdin.read()", ""))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    reports = companion("ending")
    reports.start()
    await until(lambda: reports.exit_status == 0 and not reports.states.failing)
    await reports.stop()
