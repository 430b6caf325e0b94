"""The identity of a root: the folder that was locked, also after the next start.

If the file system of a root is not mounted, its path leads to an empty folder, in which the next mount would hide
files. So the root, and each mount point in it, has a file with an arbitrary identity (``MARK``), and the node keeps a
copy of these identities in its data folder. A root whose identities are known is served only while it has them. While
it is served, ``check`` compares the folders with the ones that were locked; each writer calls it before and after a
write.
"""

import errno
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from semq.clock import draw_secret
from semq.folders.errors import RootReplaced
from semq.store.files import write_safely

MARK = ".semq.root"
MOUNTS = Path("/proc/self/mountinfo")
REPLACED = "another folder has this path: its file system is not mounted, or the folder was replaced"
#: Errors that mean that no folder has the path any more. Others, such as a timeout of a network, say nothing about it.
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR})
_ESCAPED = re.compile(r"\\([0-7]{3})")


def known_file(data_dir: Path, root: Path) -> Path:
    """Return the path of the node's copy of the identities of a root."""
    return data_dir / "folders" / f"{sha256(os.fsencode(root)).hexdigest()[:16]}.json"


class RootIdentity:
    """The identities of one root and of the mount points in it."""

    def __init__(self, root: Path, folders: Sequence[Path], known: Path | None = None) -> None:
        """``folders``: the folders of the root in which files are written. ``known``: file with the copy, if any."""
        self._root = root
        self._folders = folders
        self._known = known
        self._served: dict[Path, tuple[int, int]] = {}  #: device and inode of each folder with an identity

    def compare(self) -> None:
        """Compare the root with the copy of its identities; change nothing. Raises RootReplaced, OSError."""
        for folder, identity in self._read_known().items():
            path = self._root / folder
            present = _read_mark(path)
            if present != identity:
                fault = "has the identity of another folder" if present else "does not have its identity"
                raise RootReplaced(path=str(path), fault=fault, known=str(self._known))

    def establish(self) -> None:
        """Give an identity to the root and to each mount point in it; keep a copy. Raises OSError."""
        identities: dict[str, str] = {}
        served: dict[Path, tuple[int, int]] = {}
        for path in (self._root, *self._mount_points()):
            try:
                identity = _read_mark(path) or _make_mark(path)
            except OSError:
                if path == self._root:
                    raise
                continue  # a mount point in which nothing can be written
            identities[str(path.relative_to(self._root))] = identity
            served[path] = _inode(path)
        if self._known is not None and identities != self._read_known():
            write_safely(self._known, msgspec.json.format(msgspec.json.encode(identities)))
        self._served = served

    def check(self) -> None:
        """Raise OSError unless the folders are the ones for which ``establish`` was called last."""
        for path, served in self._served.items():
            if _inode(path) != served:
                raise OSError(errno.ESTALE, REPLACED, str(path))

    def fault(self) -> RootReplaced | None:
        """Return the error if ``check`` fails for another reason than a fault of the file system."""
        try:
            self.check()
        except OSError as error:
            if error.errno == errno.ESTALE or error.errno in _GONE:
                return RootReplaced(path=error.filename, fault=error.strerror, known=str(self._known))
        return None

    def _mount_points(self) -> Iterator[Path]:
        """Yield the folders of the root that are in another file system than the folder above them."""
        root = self._root.resolve()
        below = [self._root / path.relative_to(root) for path in _mounted() if root in path.parents]
        within = {path for path in below if any(path.is_relative_to(folder) for folder in self._folders)}
        # Links to folders elsewhere.
        device = self._root.stat().st_dev
        yield from sorted(within | {folder for folder in self._folders if folder.stat().st_dev != device})

    def _read_known(self) -> Mapping[str, str]:
        """Return the copy; empty if there is none. Raises OSError."""
        try:
            content = self._known.read_bytes() if self._known is not None else b"{}"
            return msgspec.json.decode(content, type=dict[str, str])
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:  # somebody has changed the file
            raise OSError(errno.EINVAL, f"not the identities of a folder: {error}", str(self._known)) from error


def _mounted() -> list[Path]:
    """Return all mount points; none on systems that do not list them."""
    with suppress(OSError):
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
        return [Path(_ESCAPED.sub(lambda code: chr(int(code[1], 8)), line.split(" ")[4])) for line in lines]
    return []


def _inode(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino


def _read_mark(folder: Path) -> str:
    """Return the identity of a folder; empty without one. Raises OSError."""
    try:
        return (folder / MARK).read_text("ascii", "replace").strip()
    except OSError as error:
        if error.errno in _GONE:
            return ""
        raise


def _make_mark(folder: Path) -> str:
    identity = draw_secret(16).hex()
    write_safely(folder / MARK, f"{identity}\n".encode())
    return identity
