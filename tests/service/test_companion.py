"""A program beside a node: started again when it ends, stopped with the node, and ended with it."""

import asyncio
import sys

import pytest
from structlog.testing import capture_logs

from semq.clock import SystemClock
from semq.service.companion import Companion, Program
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
    await serves.stop()  # nothing to stop yet
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
    with monkeypatch.context() as without, capture_logs() as said:
        without.setattr(sys, "executable", "/no/such/program")
        serves.start()
        await until(lambda: any(line["event"] == "companion_not_started" for line in said))
    await until(lambda: serves.is_running)
    await serves.stop()
