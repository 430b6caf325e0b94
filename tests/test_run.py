"""``./run`` selects the interpreter of its environment; tested with simulated interpreters in a PATH of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# A simulated interpreter answers the requests of ``./run``, and prints its name instead of making an environment.
STAND_IN = """#!/bin/sh
case "$*" in
    *version_info*|*flock*) exit 0 ;;
    *ensurepip*) exit {has_venv:d} ;;
    *interpreter.py) exit {optimized:d} ;;
    "-m venv "*) echo "taken: $0" >&2; exit 9 ;;
esac
exit 1
"""
NOTE = "without optimisations"
TOOLS = "sh cat cksum cut dirname grep id rm tr".split()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout with the files that ``./run setup`` reads, without an environment."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("run", "requirements-base.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def stand_in(folder: Path, name: str, *, optimized: bool, has_venv: bool = True) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text(STAND_IN.format(optimized=not optimized, has_venv=not has_venv))
    file.chmod(0o755)
    return file


def set_up(checkout: Path, *folders: Path, **environment: str) -> str:
    """Return the output of ``./run setup`` until the simulated interpreter ends it."""
    tools = checkout.parent / "tools"  # instead of the machine's own folders, which have interpreters
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    path = ":".join(map(str, [*folders, tools]))
    done = subprocess.run(
        [checkout / "run", "setup", "base"],
        env={**{k: v for k, v in os.environ.items() if k != "PYTHON"}, "PATH": path, **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr


def test_an_optimized_interpreter_behind_another_one_is_taken(checkout: Path, tmp_path: Path) -> None:
    stand_in(tmp_path / "first", "python3.11", optimized=False)
    good = stand_in(tmp_path / "second", "python3.11", optimized=True)
    result = set_up(checkout, tmp_path / "first", tmp_path / "second")
    assert f"taken: {good}" in result
    assert NOTE not in result


def test_a_newer_one_that_is_optimized_is_taken_before_an_older_one_that_is_not(checkout: Path, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    stand_in(folder, "python3.11", optimized=False)
    assert f"taken: {stand_in(folder, 'python3.12', optimized=True)}" in set_up(checkout, folder)


def test_a_named_python_is_used_with_a_note_about_its_build(checkout: Path, tmp_path: Path) -> None:
    stand_in(tmp_path / "first", "python3.11", optimized=True)
    named = stand_in(tmp_path / "second", "mine", optimized=False)
    result = set_up(checkout, tmp_path / "first", PYTHON=str(named))
    assert f"taken: {named}" in result
    assert f"{named} was built {NOTE}" in result


def test_one_that_makes_environments_is_taken_before_one_that_is_optimized_and_cannot(
    checkout: Path, tmp_path: Path
) -> None:
    stand_in(tmp_path / "first", "python3.11", optimized=True, has_venv=False)
    able = stand_in(tmp_path / "second", "python3.11", optimized=False)
    result = set_up(checkout, tmp_path / "first", tmp_path / "second")
    assert f"taken: {able}" in result
    assert NOTE in result
