"""Writing files so that a crash leaves the old content or the new, never half of it.

Used by the embedded cluster and all of ``semq.pki``.
"""

import os
from pathlib import Path


def write_safely(path: Path, octets: bytes, mode: int = 0o644) -> None:
    """Write beside, force to disk, rename over; made with ``mode``, so that no moment shows more than that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)  # left by a crash; another mode may cling to it
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        file.write(octets)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
