"""Surroundings of a test run: temporary files in memory, bytecode beside the sources, cheap hashes, rare collections.

Most temporary files are databases. Their servers run with ``fsync`` on, as nodes demand it; on a disk, every test would
wait until some hundred files of its database are durable, when it is made and when it is dropped. Nothing that a test
finds depends on that, for no test switches a machine off.
"""

import gc
import os
import sys
import tempfile
from pathlib import Path

from semq.broker import users

MEMORY = Path("/dev/shm")
ROOM_BYTES = 6 << 30
GC_THRESHOLDS = (100_000, 50, 100)


def use_memory() -> None:
    """Put temporary files of this process and its children into memory, unless TMPDIR is set."""
    if "TMPDIR" not in os.environ and _has_room():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # asked for anew


def _has_room() -> bool:
    try:
        found = os.statvfs(MEMORY)
        available = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]
    except (OSError, IndexError):
        return False
    is_usable = os.access(MEMORY, os.W_OK) and not found.f_flag & os.ST_NOEXEC  # some tests make programs
    return is_usable and min(found.f_bavail * found.f_frsize, int(available) * 1024) > ROOM_BYTES


def keep_bytecode() -> None:
    """Let this process and its children write bytecode: rewriting all assertions takes longer than many tests."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def hash_cheaply() -> None:
    """Let passwords be hashed in this process as always, at less cost: a hub hashes one for each institution."""
    users._SCRYPT_N = 16


def collect_rarely() -> None:
    """Let garbage collections be rare: a worker has many objects, and looking through them took a fifth of its time."""
    gc.set_threshold(*GC_THRESHOLDS)
