"""Crash-safe writing of files, and locks of files between processes."""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import takewhile
from pathlib import Path

from semq.sizes import size as size_text

NAME_BYTES_MAX = 255  # limit of file names on the common file systems


def write_safely(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Replace a file, so that after a crash it has its old content or its new content, never a part.

    The file never has wider permissions than ``mode``. A missing parent folder is created for its owner only, and
    folders above it with the default permissions.
    """
    write_blocks_safely(path, (content,), mode)


def write_blocks_safely(path: Path, blocks: Iterable[bytes], mode: int = 0o644, size: int = 0) -> None:
    """Write blocks of content as ``write_safely`` does.

    ``size``: bytes of the content, if known. Content for which there is no room is not begun, because until it fails it
    would take the room of others. After an error nothing remains of the new content. Only one thread at a time may
    write a file: incomplete content always has the same temporary name, so that the next write removes what a crash has
    left.
    """
    make_folder(path.parent, 0o700)
    new_path = _new_path(path)
    new_path.unlink(missing_ok=True)  # left by a crash, possibly with another mode
    _check_room(path, size)
    handle = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        new_path.replace(path)
    except BaseException as error:
        with suppress(OSError):
            new_path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename is None:
            error.filename = str(path)  # the system names no file when there is no room for its content
        raise
    sync_folder(path.parent)


def _new_path(path: Path) -> Path:
    """Return the temporary path of a file: always the same for this file, and hidden."""
    plain = f".{path.name}.new"
    has_room = len(os.fsencode(plain)) <= NAME_BYTES_MAX
    return path.with_name(plain if has_room else f".{sha256(os.fsencode(path.name)).hexdigest()[:32]}.new")


def _check_room(path: Path, size: int) -> None:
    """Raise OSError if the file system has no room for so many bytes."""
    free, total = room(path.parent)
    if total and size > free:
        fault = f"{os.strerror(errno.ENOSPC)}: {size_text(size)} needed, {size_text(free)} of {size_text(total)} free"
        raise OSError(errno.ENOSPC, fault, str(path))


def room(folder: Path) -> tuple[int, int]:
    """Return the free bytes and all bytes of the file system of a folder; it may not know them (0 of 0)."""
    system = os.statvfs(folder)
    return system.f_bavail * system.f_frsize, system.f_blocks * system.f_frsize


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
