"""Crash-safe writing of files, and locks of files between processes."""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path


def write_safely(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace a file, so that after a crash it has its old content or its new content, never a part.

    The file never has wider permissions than ``mode``. A missing parent folder is created for its owner only, and
    folders above it with the default permissions.
    """
    write_blocks_safely(path, (content,), mode)


def write_blocks_safely(path: Path, blocks: Iterable[bytes], mode: int = 0o644) -> None:
    """Write blocks of content as ``write_safely`` does.

    Only one thread at a time may write a file: incomplete content always has the same temporary name, so that the next
    write removes what a crash has left.
    """
    make_folder(path.parent, 0o700)
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
    """Hold the lock of a file, which is made if it does not exist; wait while another process holds the lock."""
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and the missing folders above it with the default permissions, so that they outlast a crash."""
    missing = list(takewhile(lambda above: not above.is_dir(), (folder, *folder.parents)))
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for made in reversed(missing):
        with suppress(PermissionError):  # a folder that may be written, but not read, cannot be synced
            sync_folder(made.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
