"""The content of a file in ``out``: a small one as bytes, a large one in blocks while it is sent.

The file stays open from the first reading to the last block, and must be the same file with the same content all that
time: a large one that changes while it is sent is not sent at all.
"""

import os
import stat
from collections.abc import Iterator
from hashlib import sha256

from semq.app.file_body import BlockBody
from semq.folders.layout import Offered
from semq.transport.spool import BLOCK

READ_MAX = 1 << 20  # bytes; larger files are read in blocks


class FileChanged(Exception):  # noqa: N818 - not an error: the file is looked at again
    """Another file has the name, or the content is being changed."""


class FileContent:
    """A large file that is sent: its bytes in blocks, and their digest."""

    def __init__(self, file: Offered, handle: int) -> None:
        self._file = file
        self._handle = handle
        self.digest = ""
        self.beginning = b""  #: more than is parsed to find out what it is

    def __del__(self) -> None:
        os.close(self._handle)

    def __len__(self) -> int:
        return self._file.size

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes; may be called again. Raises FileChanged before the last block, OSError."""
        at = 0
        while at < self._file.size:
            block = os.pread(self._handle, min(BLOCK, self._file.size - at), at)
            at += len(block)
            is_last = not block or at == self._file.size
            if is_last and not (block and self._file.is_still(os.fstat(self._handle))):
                raise FileChanged
            yield block

    def measure(self) -> None:
        """Read it once for its digest. Raises FileChanged, OSError."""
        digest = sha256()
        for block in self.blocks():
            digest.update(block)
        self.digest = digest.hexdigest()
        self.beginning = os.pread(self._handle, READ_MAX + 1, 0)


def content_of(file: Offered) -> tuple[bytes | BlockBody, bytes, str]:
    """Return the body, its beginning and its digest. Raises FileChanged, OSError."""
    # It may be a link or a pipe meanwhile.
    handle = os.open(file.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    content = FileContent(file, handle)
    status = os.fstat(handle)
    if not (stat.S_ISREG(status.st_mode) and file.is_still(status)):
        raise FileChanged
    if file.size <= READ_MAX:
        body = b"".join(content.blocks())
        return body, body, sha256(body).hexdigest()
    content.measure()
    return content, content.beginning, content.digest
