"""Bodies of documents that are read block by block while they are sent."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

from semq.transport.spool import BLOCK


class BlockBody(Protocol):
    """A body that is never complete in memory."""

    def __len__(self) -> int:
        """Return the number of bytes."""

    def blocks(self) -> Iterable[bytes]:
        """Yield the bytes in blocks; may be called again."""


class FileBody:
    """The bytes of a file, up to the size that it had when this object was made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = path.stat().st_size

    def __len__(self) -> int:
        return self._size

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes in blocks. Raises OSError, and EOFError if the file became shorter."""
        bytes_left = self._size
        with self.path.open("rb") as file:
            while bytes_left:
                block = file.read(min(BLOCK, bytes_left))
                if not block:
                    raise EOFError(f"{self.path} became shorter while it was read.")
                bytes_left -= len(block)
                yield block
