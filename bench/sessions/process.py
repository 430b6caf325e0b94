"""Programs of SEMQ as processes: their start, memory and processor time."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.errors import NoFigures

READY_S = 1800.0  # time limit for the start of a program, until its first line


def rss(pid: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """Return the seconds of processor time of a process and its children, running or ended."""
    stats = [_stat(int(folder.name)) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    children = [stat for stat in stats if stat[:1] == [pid]]
    ticks = sum(_stat(pid)[1:]) + sum(sum(child[1:3]) for child in children)
    return ticks / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[int]:
    """Return the parent of a process, its ticks in user and in system mode, and those of its ended children.

    The list is empty if the process has ended.
    """
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
        line = await _first_line(program.stdout)
        if not line.startswith("ready "):
            raise NoFigures(f"{module} did not start")
        yield program.pid, line.split()[1]
    finally:
        if program.returncode is None:
            program.terminate()
        await program.wait()


async def _first_line(output: asyncio.StreamReader) -> str:
    """Return the first line; empty if the program ends, or takes longer than READY_S."""
    try:
        async with asyncio.timeout(READY_S):
            return (await output.readline()).decode()
    except TimeoutError:
        return ""
