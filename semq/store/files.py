"""Crash-safe writing of files: after a crash a file has its old content or its new content, never a part.

Used by all rooms that write files which must survive a crash, for instance ``embedded`` and ``semq.pki``.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_safely(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write to a new file, force it to disk and rename it. The new file is created with ``mode``, so it never has
    wider permissions.
    """
    write_blocks_safely(path, (content,), mode)


def write_blocks_safely(path: Path, blocks: Iterable[bytes], mode: int = 0o644) -> None:
    """Write blocks of content as ``write_safely`` does."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)  # left by a crash, possibly with another mode
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        for block in blocks:
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    sync_folder(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made if it does not exist; wait while another process holds it."""
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    """Make renames in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
