"""An older commit beside this one: its sources, its environment, and nothing left of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.errors import NoCheckout
from bench.versions import checkout as module
from bench.versions.checkout import LOCK, PACKAGES, checkout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit, in the place of this one."""
    root = tmp_path / "repository"
    for package in PACKAGES:
        (root / package).mkdir(parents=True)
        (root / package / "__init__.py").write_text("")
    (root / LOCK).write_text("older")
    git(root, "init", "--quiet")
    git(root, "add", ".")
    git(root, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "-m", "older")
    monkeypatch.setattr(module, "ROOT", root)
    return root


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True).stdout


def test_nodes_of_an_older_commit_use_its_sources_and_this_interpreter(repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "older"
    with checkout("HEAD", folder) as older:
        assert (older.program.python, older.program.variables) == (sys.executable, {"PYTHONPATH": str(folder)})
        asked = [older.program.python, "-P", "-c", "import semq; print(semq.__file__)"]
        answer = subprocess.run(asked, env=dict(older.program.variables), check=True, capture_output=True, text=True)
        assert Path(answer.stdout.strip()) == folder / "semq" / "__init__.py"
    assert not folder.exists()
    assert git(repository, "worktree", "list").count("\n") == 1


def test_an_unknown_commit_ends_the_run_without_figures(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(NoCheckout, match="unknown"), checkout("unknown", tmp_path / "older"):
        pass
