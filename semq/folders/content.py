"""The content of a file in ``out``: of a small file as bytes, of a large one in blocks while it is sent."""

import os
import stat
from collections.abc import Iterator
from hashlib import sha256

from semq.app.file_body import BlockBody
from semq.folders.layout import Offered
from semq.transport.spool import BLOCK

READ_MAX = 1 << 20  # bytes; larger files are read in blocks


class FileChanged(Exception):  # noqa: N818 - not an error: a later search finds the file again
    """The file was replaced, or its content has changed."""


class FileContent:
    """An open file that is to be sent."""

    def __init__(self, file: Offered, handle: int) -> None:
        self._file = file
        self._handle = handle
        self.digest = ""  #: SHA-256; empty before ``read_digest``
        self.beginning = b""  #: enough bytes to recognise the content type; empty before ``read_digest``

    def __del__(self) -> None:
        os.close(self._handle)

    def __len__(self) -> int:
        return self._file.size

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes. Raises OSError, and FileChanged before the last block of a changed file."""
        position = 0
        while position < self._file.size:
            block = os.pread(self._handle, min(BLOCK, self._file.size - position), position)
            position += len(block)
            is_shorter = not block
            is_last = position == self._file.size
            if is_shorter or (is_last and not self._file.is_unchanged(os.fstat(self._handle))):
                raise FileChanged
            yield block

    def read_digest(self) -> None:
        """Read the file once to set ``digest`` and ``beginning``. Raises FileChanged, OSError."""
        digest = sha256()
        for block in self.blocks():
            digest.update(block)
        self.digest = digest.hexdigest()
        self.beginning = os.pread(self._handle, READ_MAX + 1, 0)


def content_of(file: Offered) -> tuple[bytes | BlockBody, bytes, str]:
    """Return body, beginning and digest of a file. Raises FileChanged, OSError."""
    # A link or a pipe may have replaced the file since the search.
    handle = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    content = FileContent(file, handle)
    status = os.fstat(handle)
    if not (stat.S_ISREG(status.st_mode) and file.is_unchanged(status)):
        raise FileChanged
    if file.size <= READ_MAX:
        body = b"".join(content.blocks())
        return body, body, sha256(body).hexdigest()
    content.read_digest()
    return content, content.beginning, content.digest
