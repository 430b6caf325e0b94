"""Programs that a node keeps running."""

import asyncio
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from semq.clock import SystemClock
from semq.service.companion.program import Companion, CompanionModule
from tests.waiting import until

ENDING = "this"  # a module of Python that ends
SERVER = ("http.server", ("0", "--bind", "127.0.0.1"))


def companion(module: str, *arguments: str) -> Companion:
    return Companion(CompanionModule(module), arguments, dict, SystemClock())


async def test_a_program_that_ends_is_started_again() -> None:
    ending = companion(ENDING)
    ending.start()
    await until(lambda: ending.starts > 1 and not ending.is_running)
    assert ending.exit_status == 0
    await ending.stop()
    assert not ending.is_running


async def test_a_program_ends_when_its_node_stops() -> None:
    serving = companion(SERVER[0], *SERVER[1])
    await serving.stop()  # no process exists yet
    serving.start()
    await until(lambda: serving.is_running)
    await serving.stop()
    assert not serving.is_running
    assert serving.starts == 1


async def test_a_program_is_restarted_at_once() -> None:
    serving = companion(SERVER[0], *SERVER[1])
    serving.restart()  # no process exists yet
    serving.start()
    await until(lambda: serving.is_running)
    with capture_logs() as logged:
        serving.restart()
        serving.restart()
        await until(lambda: serving.starts == 2 and serving.is_running)
    assert [line["event"] for line in logged] == ["companion_restarted"]  # without a pause
    await serving.stop()
    assert not serving.is_running


WAITING = """
import asyncio
from semq.service.companion.process import _wait_for_stop
asyncio.run(_wait_for_stop(with_parent=True)())
"""


async def test_a_program_ends_when_the_pipe_from_its_node_closes() -> None:
    program = await asyncio.create_subprocess_exec(sys.executable, "-c", WAITING, stdin=asyncio.subprocess.PIPE)
    assert program.stdin is not None
    program.stdin.close()
    async with asyncio.timeout(60):
        assert await program.wait() == 0


async def test_a_program_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = companion(SERVER[0], *SERVER[1])
    with monkeypatch.context() as patch, capture_logs() as logged:
        patch.setattr(sys, "executable", "/no/such/program")
        serving.start()
        await until(lambda: bool(logged))
    assert [(line["event"], "exit_status" in line) for line in logged] == [("companion_not_started", False)]
    await until(lambda: serving.is_running)
    await serving.stop()


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
    # Before its report, the program prints a line that is too long.
    (tmp_path / "reporting.py").write_text(REPORTS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    reporting = companion("reporting")
    reporting.start()
    await until(lambda: list(reporting.states.failing) == ["erp"])
    reporting.states.update(b'{"section": "erp", "failing": null}\n')
    assert reporting.states.failing == {}
    await reporting.stop()


async def test_states_end_with_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ending.py").write_text(REPORTS.replace("sys.stdin.read()", ""))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[3]}")
    reporting = companion("ending")
    reporting.start()
    await until(lambda: reporting.exit_status == 0 and not reporting.states.failing)
    await reporting.stop()
