"""An older commit in a temporary folder, and the interpreter and environment that run its nodes."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.cli import say
from bench.errors import NoCheckout
from bench.network import NodeProgram

ROOT = Path(__file__).parents[2]
LOCK = "requirements-base.lock"
PACKAGES = ("semq", "local_node", "platform_node")


@dataclass(frozen=True, slots=True)
class Checkout:
    """Sources, and how their nodes are run."""

    root: Path
    program: NodeProgram = field(default_factory=NodeProgram)


@contextmanager
def checkout(commit: str, folder: Path) -> Iterator[Checkout]:
    """Check ``commit`` out in ``folder``; remove it at the end. Raises NoCheckout.

    The interpreter is that of this process if both commits lock the same packages. Otherwise the older one prepares an
    environment of its own, for which it needs a package registry.
    """
    _run("git", "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(folder), commit)
    try:
        yield _prepared(folder)
    finally:
        _run("git", "-C", str(ROOT), "worktree", "remove", "--force", str(folder))


def _prepared(folder: Path) -> Checkout:
    python = sys.executable
    if (ROOT / LOCK).read_bytes() != (folder / LOCK).read_bytes():
        say(f"{LOCK} differs: preparing an environment for the older commit ...")
        _run(str(folder / "run"), "setup", "base")
        python = str(folder / ".venv" / "bin" / "python")
    for root in (ROOT, folder):  # a start should not compile
        _run(sys.executable, "-m", "compileall", "-q", *(str(root / package) for package in PACKAGES))
    return Checkout(folder, NodeProgram(python, {"PYTHONPATH": str(folder)}))


def _run(*command: str) -> None:
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise NoCheckout(f"{' '.join(command)}: {ended.stderr.strip()}")
