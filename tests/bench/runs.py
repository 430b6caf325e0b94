"""Runs of ``python -m bench`` as users start them, and the files and processes that remain."""

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.prepared.client import command_of

SMALL = ("--messages", "12", "--size", "100", "--rate", "200")


def run_bench(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command_of("bench", *arguments), capture_output=True, text=True, check=False)


def run_disturbed(
    temporary: Path, disturb: Callable[["subprocess.Popen[str]", dict[str, int]], None]
) -> tuple[int, str]:
    """Start a run, call ``disturb`` when its nodes serve; return the exit status, and the later lines on stderr.

    ``temporary``: the folder of its temporary files.
    """
    with subprocess.Popen(
        command_of("bench", "--messages", "1000000", "--rate", "10"),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)},
    ) as run:  # fmt: skip
        assert run.stderr is not None
        try:
            for line in run.stderr:
                if "processes:" in line:
                    disturb(run, {name: int(pid) for name, pid in re.findall(r"(\w+) (\d+)", line)})
                    break
            output = run.stderr.read()
            return run.wait(), output
        finally:
            run.kill()


def kill_a(run: "subprocess.Popen[str]", pids: dict[str, int]) -> None:
    os.kill(pids["a"], signal.SIGKILL)


def interrupt(run: "subprocess.Popen[str]", pids: dict[str, int]) -> None:
    run.send_signal(signal.SIGINT)


def terminate(run: "subprocess.Popen[str]", pids: dict[str, int]) -> None:
    run.send_signal(signal.SIGTERM)


def processes_of(folder: Path) -> list[str]:
    """Return the command lines of the processes that name this folder or work there."""
    commands = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_text().replace("\0", " ")
                works_there = (process / "cwd").readlink().is_relative_to(folder)
            except OSError:
                continue
            if works_there or str(folder) in command:
                commands.append(command)
    return commands
