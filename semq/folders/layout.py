"""The folders of one root, the names of files in them, and the notes beside files.

A note is a JSON file beside the file of a document: NAME.semq.json beside NAME. The note is written first, so that a
reader of the file finds it.
"""

import errno
import json
import os
import re
import threading
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from semq.folders.errors import BadName, BadPlace
from semq.foreign_text import in_page
from semq.store.files import make_folder, sync_folder, write_safely
from semq.umx_t.app_key import AppKey

log = structlog.get_logger("semq.folders")

NOTE = ".semq.json"
NOT_OFFERED = (".part", ".tmp", "~", NOTE)  # endings of unfinished files and of notes
NAME_BYTES_MAX = 200  # below 255: notes and temporary files have longer names
DEPTH_MAX = 4  # target, type, subtype, name
#: Errors that mean that no file has the path. Keys of other applications may give paths that the file system does not
#: allow. After every other error there may be a file.
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ})
_FORBIDDEN = re.compile(r'[\x00-\x1f"*/:<>?\\|\ufffd]')  # some systems forbid these characters in file names


class Offered(NamedTuple):
    """A file in ``out`` at the time of the search."""

    path: Path
    size: int  # bytes
    modified_ns: int
    changed_ns: int  #: ctime, which also changes when the file is moved

    def is_unchanged(self, status: os.stat_result, *, moved: bool = False) -> bool:
        """Whether the file is unchanged. ``status``: of the present file. ``moved``: ignore ctime."""
        has_same_size_and_time = (status.st_size, status.st_mtime_ns) == (self.size, self.modified_ns)
        return has_same_size_and_time and (moved or status.st_ctime_ns == self.changed_ns)


class Route(NamedTuple):
    """The target and AppKey of a file."""

    target: str
    app_key: AppKey


class Layout:
    """The folders of one root."""

    def __init__(self, root: Path, domain: str = "") -> None:
        self.root = root
        self.domain = domain  #: the domain in the AppKeys of sent documents
        self.out, self.sent, self.failed, self.arrived = (root / name for name in ("out", "sent", "failed", "in"))
        #: note and next folder of each file in ``out`` that the node has accepted or refused
        self.unmoved: dict[Offered, tuple[Mapping[str, object], Path]] = {}
        self.unread: dict[str, OSError] = {}  #: error of each folder whose files the search in ``out`` cannot read
        self._choice = threading.Lock()
        self._being_moved: set[Path] = set()  #: old and new paths of files that threads are moving

    def make(self) -> None:
        for folder in (self.out, self.sent, self.failed, self.arrived):
            make_folder(folder)

    def offered(self, at_most: int, without: Collection[str] = ()) -> list[Offered]:
        """Return at most ``at_most`` files in ``out``, an arbitrary selection, sorted by the time of modification.

        Left out are hidden files, names that end as in NOT_OFFERED, links and special files, and the folders of the
        targets ``without``. Folders that could not be read are in ``unread``, and are logged once.
        """
        unread: dict[str, OSError] = {}
        files = list(islice(_files(self.out, unread, without), at_most))
        for folder, error in unread.items():
            if folder not in self.unread:
                log.error("folder_not_read", folder=folder, error=error.strerror)
        is_complete = len(files) < at_most and not without
        self.unread = unread if is_complete else self.unread | unread
        return sorted(files, key=lambda file: (file.modified_ns, file.path))

    def route(self, path: Path) -> Route:
        """Return the target and AppKey of a file. Raises BadPlace, BadName.

        ``out/56001@buyer`` is for the user ``56001/buyer``: names of folders cannot contain a slash.
        """
        parts = path.relative_to(self.out).parts
        if not 2 <= len(parts) <= DEPTH_MAX:
            raise BadPlace(file=str(path.relative_to(self.root)))
        try:
            "/".join(parts).encode()
        except UnicodeEncodeError:
            raise BadName(file=repr(os.fsencode("/".join(parts)))) from None
        target, *kinds, name = parts
        type_, subtype = (*kinds, "", "")[:2]
        return Route(target.replace("@", "/"), AppKey(self.domain, type_, subtype, name))

    def path_of(self, target: str, app_key: AppKey) -> Path:
        """Return the path of a file with this target and AppKey, relative to ``out``."""
        return Path(target.replace("/", "@"), *(part for part in app_key[1:] if part))

    def move(
        self, path: Path, folder: Path, note: Mapping[str, Any], name: str = "", expected: Offered | None = None
    ) -> Path | None:
        """Move a file to another folder of this root, under the same relative path; write a note beside it.

        Return the new path, with ``name`` or a number if another file has the path. If the file is not ``expected``,
        move it back and return None. The former note of the file in ``sent`` or ``failed`` is removed. Raises OSError.
        """
        relative_path = Path(*path.relative_to(self.root).parts[1:])
        with self._reserved(path, folder / with_room_for_note(relative_path), name) as destination:
            write_note(destination, note)
            try:
                path.replace(destination)
            except OSError:
                note_of(destination).unlink(missing_ok=True)
                raise
            if expected is not None and not expected.is_unchanged(destination.lstat(), moved=True):
                note_of(destination).unlink(missing_ok=True)
                destination.rename(free_path(path))
                return None
            sync_folder(destination.parent)
            if not path.is_relative_to(self.out):
                note_of(path).unlink(missing_ok=True)
            return destination

    @contextmanager
    def _reserved(self, path: Path, wanted: Path, name: str) -> Iterator[Path]:
        """Choose the destination of a file. While the file is moved, no other thread gets the destination or old path.

        Otherwise another file at the destination would be overwritten, or the note of another file at the old path
        would be removed.
        """
        with self._choice:
            destination = free_path(wanted, name, self._being_moved)
            self._being_moved |= {path, destination}
        try:
            yield destination
        finally:
            with self._choice:
                self._being_moved -= {path, destination}


def _files(folder: Path, unread: dict[str, OSError], without: Container[str] = (), depth: int = 1) -> Iterator[Offered]:
    """Yield the files below a folder. ``without``: names directly in the folder that are left out.

    ``unread`` gets an error of each folder that cannot be read, or whose files cannot be examined.
    """
    for entry in _entries(folder, unread):
        if entry.name.startswith(".") or entry.name.endswith(NOT_OFFERED) or entry.name in without:
            continue
        try:
            if entry.is_dir(follow_symlinks=False) and depth < 2 * DEPTH_MAX:
                yield from _files(Path(entry.path), unread, depth=depth + 1)
            elif entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                yield Offered(Path(entry.path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        except FileNotFoundError:
            pass  # the file was removed during the search
        except OSError as error:  # the folder may be listed, but not entered
            unread.setdefault(str(folder), error)


def _entries(folder: Path, unread: dict[str, OSError]) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        pass  # the folder was removed during the search
    except OSError as error:
        unread.setdefault(str(folder), error)


def file_name_for(text: str) -> str:
    """Return a valid file name for a foreign text: the text, or a name with a digest of it."""
    name = _FORBIDDEN.sub("_", in_page(text)).strip(". ")
    if name == text and len(os.fsencode(name)) <= NAME_BYTES_MAX and not name.endswith(NOT_OFFERED):
        return name
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    stem, dot, ending = name.rpartition(".")
    ending = f"{dot}{ending}" if stem and len(os.fsencode(ending)) <= 16 and not name.endswith(NOT_OFFERED) else ""
    stem_bytes_max = NAME_BYTES_MAX - len(os.fsencode(f"~{digest}{ending}"))
    short_stem = os.fsencode(name.removesuffix(ending))[:stem_bytes_max].decode("utf-8", "ignore")
    return f"{short_stem}~{digest}{ending}"


def with_room_for_note(path: Path) -> Path:
    """Return a path with a name short enough for a note."""
    return path if len(os.fsencode(path.name)) <= NAME_BYTES_MAX else path.with_name(file_name_for(path.name))


def marked(path: Path, mark: str) -> Path:
    """Return ``name~MARK.xml`` for ``name.xml``."""
    return path.with_name(f"{path.stem}~{mark}{path.suffix}")


def free_path(path: Path, mark: str = "", without: Container[Path] = ()) -> Path:
    """Return a path that no file has: the path, the path with the mark, or a numbered path; none of ``without``.

    Raises OSError.
    """
    preferred = [path, marked(path, mark)] if mark else [path]
    numbered = (marked(path, f"{mark}~{number}" if mark else str(number)) for number in count(2))
    candidates = (candidate for candidate in chain(preferred, numbered) if candidate not in without)
    return next(candidate for candidate in candidates if not is_present(candidate))


def is_present(path: Path) -> bool:
    """Whether a file has this path. Raises OSError if that cannot be determined."""
    try:
        path.lstat()
    except OSError as error:
        if error.errno in _NO_FILE:
            return False
        raise
    except ValueError:  # not a possible path
        return False
    return True


def note_of(path: Path) -> Path:
    """Return the path of the note of a file."""
    return path.with_name(path.name + NOTE)


def write_note(path: Path, note: Mapping[str, Any]) -> None:
    """Write the note of a file, completely or not at all. Raises OSError."""
    make_folder(path.parent)
    text = json.dumps(note, ensure_ascii=False, indent=2, default=repr)
    with named_in_errors(note_of(path)):
        write_safely(note_of(path), text.encode("utf-8", "backslashreplace") + b"\n")


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Add the path to each OSError that names no file, for instance when the disk is full."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def read_note(path: Path) -> dict[str, Any]:
    """Return the note of a file; empty if it is missing or invalid. Raises OSError if that cannot be determined."""
    try:
        note = json.loads(note_of(path).read_bytes())
    except OSError as error:
        if error.errno in _NO_FILE:
            return {}
        raise
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}
