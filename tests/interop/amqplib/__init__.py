"""amqplib of Node.js, installed once, by its lock file."""

import fcntl
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / ".cache" / "amqplib"
PROGRAMS = ("node", "npm")


def is_available() -> bool:
    """Whether the machine has Node.js and npm."""
    return all(map(shutil.which, PROGRAMS))


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
