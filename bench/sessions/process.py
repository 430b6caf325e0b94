"""A program of ours as a process of its own: its start, its memory, its processor time."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from bench.errors import NoFigures

READY_S = 1800.0


def rss(pid: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """Return the processor time of a process, of its children, and of those that have ended."""
    facts = [_facts(int(one.name)) for one in Path("/proc").iterdir() if one.name.isdigit()]
    own = _facts(pid)
    living = [one for one in facts if one[:1] == [pid]]
    return (sum(own[1:]) + sum(sum(one[1:3]) for one in living)) / os.sysconf("SC_CLK_TCK")


def _facts(pid: int) -> list[int]:
    """Return parent, and ticks in user and system mode of a process and of its ended children; empty if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return []
    return [int(fields[place]) for place in (1, 11, 12, 13, 14)]


@asynccontextmanager
async def process(folder: Path, module: str, file: str) -> AsyncIterator[tuple[int, str]]:
    """Run a module on a configuration; yield process id and address when it serves. Raises NoFigures."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", module, "--config", str(folder / file), stdout=asyncio.subprocess.PIPE
    )
    assert program.stdout is not None
    try:
        line = await _line(program.stdout.readline)
        if not line.startswith("ready "):
            raise NoFigures(f"{module} did not start")
        yield program.pid, line.split()[1]
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()


async def _line(read: Callable[[], Awaitable[bytes]]) -> str:
    try:
        async with asyncio.timeout(READY_S):
            return (await read()).decode()
    except TimeoutError:
        return ""
