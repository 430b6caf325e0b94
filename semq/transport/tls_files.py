"""TLS contexts made of files that may be replaced while a process runs: certificates, keys, authorities.

The files are examined whenever a connection begins. A context of changed files is used from then on; open connections
keep theirs. If the new files cannot be used (half of a pair is replaced, or they are damaged), the former context stays
in use, and the fault is logged once.
"""

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from semq.errors import SemqError

FileState = tuple[int, int, int] | None  #: modification time, size, inode; None: no file


def state_of(path: Path) -> FileState:
    """Return what changes when a file, or the file to which it links, is replaced."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


class TlsFiles:
    """The present TLS context of some files."""

    def __init__(self, files: Sequence[Path | None], make: Callable[[], ssl.SSLContext]) -> None:
        """``make`` returns a context of the files. Raises the errors of ``make``."""
        self._files = tuple(file for file in files if file is not None)
        self._make = make
        self._states = self._present_states()
        self._context = make()

    def current(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        states = self._present_states()
        if states != self._states:
            self._states = states
            try:
                self._context = self._make()
                _log().info("tls_files_reloaded", files=[str(file) for file in self._files])
            except (OSError, ValueError, SemqError) as error:
                text = "the former files stay in use"
                _log().error(
                    "tls_files_refused", files=[str(file) for file in self._files], error=str(error), text=text
                )
        return self._context

    def _present_states(self) -> tuple[FileState, ...]:
        return tuple(state_of(file) for file in self._files)


def _log() -> Any:
    import structlog  # commands, which use this module to connect, log nothing

    return structlog.get_logger("semq.tls")


def present(tls: ssl.SSLContext | TlsFiles) -> ssl.SSLContext:
    """Return the context for a new connection."""
    return tls.current() if isinstance(tls, TlsFiles) else tls


def no_passphrase() -> str:
    """Return no passphrase for the key of a file. Without this function OpenSSL would ask at the terminal."""
    return ""
