"""A large body in a temporary file, written as it arrives; it is complete in memory only after ``bytes()``.

``UnkeptBody`` is used instead if the file system cannot store the body.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256

BLOCK = 256 * 1024  # bytes


class SpooledBody:
    """One body, in a file without a name that is deleted with this object."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="semq-")  # noqa: SIM115 - closed with this object
        self._hash = sha256()
        self._size = 0

    def __del__(self) -> None:
        # OSError: the disk is full; ``flush`` has raised the same error. AttributeError: no file could be made.
        with suppress(OSError, AttributeError):
            self._file.close()

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return b"".join(self.blocks())

    @property
    def digest(self) -> str:
        """The SHA-256 of the bytes so far, hexadecimal."""
        return self._hash.hexdigest()

    def add(self, data: bytes) -> None:
        """Append the next bytes."""
        self._file.write(data)
        self._hash.update(data)
        self._size += len(data)

    def flush(self) -> None:
        """Pass the buffered bytes to the operating system. Raises OSError, for example if the disk is full."""
        self._file.flush()

    def blocks(self, size: int = BLOCK) -> Iterator[bytes]:
        """Yield the bytes from the beginning, in blocks of ``size``; may be called again."""
        self._file.flush()
        at = 0
        while block := os.pread(self._file.fileno(), size, at):
            yield block
            at += len(block)


class UnkeptBody:
    """A large body that has arrived and was dropped, because it could not be written to a file."""

    def __init__(self, size: int, error: OSError) -> None:
        self.size = size
        # Not the error itself: its traceback would keep the file open.
        self.fault = error.strerror or str(error)
