"""amqplib of Node.js, installed once, by its lock file."""

import fcntl
import json
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "amqplib"
CACHE = Path(__file__).parents[2] / ".cache" / "amqplib"
EXPECTED = {
    "named": True,
    "returned": "nobody",
    "waiting": 10,
    "taken": [2 * n for n in range(10)],
    "death": "rejected",
    "error": 404,
    "purged": 0,
}


@pytest.fixture(scope="session")
def installed() -> Path:
    """Return a folder with the node_modules of the lock file."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE.parent / "amqplib.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock_file = (HERE / "package-lock.json").read_text()
        if not (CACHE / "complete").exists() or (CACHE / "complete").read_text() != lock_file:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(HERE / name, CACHE)
            subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=CACHE, check=True, capture_output=True
            )
            (CACHE / "complete").write_text(lock_file)
    return CACHE


def test_amqplib_gets_the_expected_answers(installed: Path, url: str) -> None:
    script = shutil.copy(HERE / "clients.js", installed)
    done = subprocess.run(
        ["node", script, url], cwd=installed, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == EXPECTED
