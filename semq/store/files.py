"""Crash-safe writing of files: after a crash a file has its old content or its new content, never a part. Also locks
of files between processes.

Used wherever a file must survive a crash, for instance in ``embedded`` and ``semq.pki``.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write_safely(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write the content to a new file, force it to disk, and rename it to ``path``.

    The new file is created with ``mode``, so it never has wider permissions. A missing parent folder is created for
    its owner only, and folders above it with the default permissions.
    """
    write_blocks_safely(path, (content,), mode)


def write_blocks_safely(path: Path, blocks: Iterable[bytes], mode: int = 0o644) -> None:
    """Write blocks of content as ``write_safely`` does."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new_path = path.with_name(f".{path.name}.new")
    new_path.unlink(missing_ok=True)  # left by a crash, possibly with another mode
    handle = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(handle, "wb") as file:
        for block in blocks:
            file.write(block)
        file.flush()
        os.fsync(file.fileno())
    new_path.replace(path)
    sync_folder(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file; wait while another process holds it. The file is made if it does not exist."""
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
