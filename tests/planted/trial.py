"""Trials: a copy of the sources, one defect in it, and the programs that should notice it.

The copy consists of links to the files, except for the changed one, so it takes a moment and no space. Python finds
its modules before those of the checkout, because ``PYTHONPATH`` names it.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.planted.table import ROOT, SIMULATE, PlantedFault

LEFT_OUT = {"var", ".git", ".venv", ".mypy_cache", ".ruff_cache", ".pytest_cache"}
KILLED, SURVIVED, BROKEN, TIMED_OUT = "killed", "survived", "broken", "timed out"
TESTS_FAILED = 1  # exit status of pytest, and of the simulator after a violation
PYTEST = ("-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider")
SIMULATOR = ("-m", "tests.simulation")
CAMPAIGN = ("-m", "tests.campaign")


@dataclass(frozen=True, slots=True)
class TrialResult:
    fault: PlantedFault
    outcome: str  #: KILLED or SURVIVED; BROKEN, TIMED_OUT: a program could not run or end, so the row says nothing
    seconds: float
    detail: str  #: the test that failed, or the end of the output


@contextmanager
def copy_of_sources(folder: Path) -> Iterator[Path]:
    """Yield a copy of the checkout, whose files are links if the file system has them."""
    copy = folder / "tree"
    shutil.copytree(ROOT, copy, ignore=lambda _, names: LEFT_OUT & set(names), copy_function=_link, symlinks=True)
    try:
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def run_trial(fault: PlantedFault, copy: Path, seconds_max: float, campaign: tuple[str, ...] = ()) -> TrialResult:
    """Put a defect into the copy, run what should notice it, and take the defect out again.

    ``campaign``: options of a campaign that should notice it instead of the tests of its row.
    """
    path, began = copy / fault.file, time.monotonic()
    original = path.read_text("utf-8")
    changed = fault.applied(original)
    _replace(path, changed)
    try:
        outcome, detail = _run(fault, copy, seconds_max, campaign)
    finally:
        path.unlink()
        _link(str(ROOT / fault.file), str(path))
    return TrialResult(fault, outcome, round(time.monotonic() - began, 1), detail)


def _replace(path: Path, text: str) -> None:
    path.unlink()  # otherwise the file of the checkout would change
    path.write_text(text, "utf-8")


def _run(fault: PlantedFault, copy: Path, seconds_max: float, campaign: tuple[str, ...]) -> tuple[str, str]:
    first, *options = fault.killers[0].split()
    program: list[str]
    said: tuple[str, ...]  # beginnings of lines that name what has failed; none: the last line does
    if campaign:
        program, said = [*CAMPAIGN, *campaign], ("document ", "alarm: ", "FAILED; ")
    elif first == SIMULATE:
        program, said = [*SIMULATOR, *options], ()
    else:
        program, said = [*PYTEST, *fault.killers], ("FAILED ", "ERROR ")
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-P", *program], cwd=copy, env=environment, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=seconds_max)
    except subprocess.TimeoutExpired:
        return TIMED_OUT, f"not ended after {seconds_max:g} s"
    finally:
        _end_group(process)
    lines = [line for line in output.splitlines() if line.strip()]
    failed = [line for line in lines if line.startswith(said)]
    if process.returncode == 0:
        return SURVIVED, ""
    outcome = KILLED if process.returncode == TESTS_FAILED and (failed or not said) else BROKEN
    return outcome, (failed or lines[-1:] or [""])[0][:200]


def _end_group(process: subprocess.Popen[str]) -> None:
    """End what a trial has left, such as database servers of tests that did not end."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
