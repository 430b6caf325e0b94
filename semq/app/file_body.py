"""A file as the body of a document: read block by block while it is sent. Used by ``Client.send``."""

from collections.abc import Iterator
from pathlib import Path

from semq.transport.spool import BLOCK


class FileBody:
    """The bytes of a file, as many as it had at first."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = path.stat().st_size

    def __len__(self) -> int:
        return self._size

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes in blocks; may be called again. Raises OSError, and EOFError if the file became shorter."""
        left = self._size
        with self.path.open("rb") as file:
            while left:
                block = file.read(min(BLOCK, left))
                if not block:
                    raise EOFError(f"{self.path} became shorter while it was read.")
                left -= len(block)
                yield block
