"""The folders of one root, the names of files in them, and the notes beside files.

A note is a JSON file beside the file of a document: NAME.semq.json beside NAME. The note is written first, so that a
reader of the file finds it.
"""

import errno
import json
import os
import re
import stat
import threading
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from semq.folders.errors import BadName, BadPlace
from semq.folders.root_identity import RootIdentity
from semq.foreign_text import in_page
from semq.moments import utc_text
from semq.store.files import make_folder, sync_folder, write_blocks_safely, write_safely
from semq.umx_t.app_key import AppKey

log = structlog.get_logger("semq.folders")

NOTE = ".semq.json"
UNFINISHED = (".part", ".partial", ".filepart", ".tmp", ".temp", ".crdownload", ".download", "~")
NOT_OFFERED = (*UNFINISHED, NOTE)  # endings of unfinished files, in any case of letters, and of notes
UNFINISHED_TEXT, EMPTY_TEXT = "unfinished, by the end of its name", "empty"
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


class Ignored(NamedTuple):
    """A file in ``out`` that is not sent."""

    reason: str
    changed_ns: int  #: ctime
    may_change: bool  #: an application may still write it


class Route(NamedTuple):
    """The target and AppKey of a file."""

    target: str
    app_key: AppKey


class Layout:
    """The folders of one root."""

    def __init__(self, root: Path, domain: str = "", known: Path | None = None) -> None:
        """``known``: file with a copy of the identity of the root (``RootIdentity``)."""
        self.root = root
        self.domain = domain  #: the domain in the AppKeys of sent documents
        self.out, self.sent, self.failed, self.arrived = (root / name for name in ("out", "sent", "failed", "in"))
        self.identity = RootIdentity(root, (self.out, self.sent, self.failed, self.arrived), known)
        #: note and next folder of each file in ``out`` that the node has accepted or refused
        self.unmoved: dict[Offered, tuple[Mapping[str, object], Path]] = {}
        self.unread: dict[str, OSError] = {}  #: error of each folder whose files the search in ``out`` cannot read
        self.ignored: dict[str, Ignored] = {}  #: files in ``out`` that are not sent, by path
        self._choice = threading.Lock()
        self._being_moved: set[Path] = set()  #: old and new paths of files that threads are moving

    def make(self) -> None:
        """Make the folders of a root that this process may serve. Raises RootReplaced, OSError."""
        self.identity.compare()
        for folder in (self.out, self.sent, self.failed, self.arrived):
            make_folder(folder)
        self.identity.establish()

    @contextmanager
    def writing(self, path: Path) -> Iterator[None]:
        """Write a file of this root. Each writer uses this: what another file system hides later counts as not written.

        Raises OSError, always with a file name.
        """
        with named_in_errors(path):
            self.identity.check()
            yield
            self.identity.check()

    def write_document(self, path: Path, blocks: Iterable[bytes], size: int, note: Mapping[str, object]) -> None:
        """Write the note of a document, then the document, of ``size`` bytes. Raises OSError."""
        with self.writing(path):
            self.write_note(path, note)
            try:
                write_blocks_safely(path, blocks, size=size)
            except OSError:
                if not is_present(path):  # otherwise an earlier delivery has written it
                    note_of(path).unlink(missing_ok=True)
                raise

    def write_note(self, path: Path, note: Mapping[str, object]) -> None:
        """Write the note of a file, completely or not at all. Raises OSError."""
        text = json.dumps(note, ensure_ascii=False, indent=2, default=repr)
        with self.writing(note_of(path)):
            make_folder(path.parent)
            write_safely(note_of(path), text.encode("utf-8", "backslashreplace") + b"\n")

    def remove(self, path: Path) -> None:
        """Remove a file and its note. Raises OSError."""
        with self.writing(path):
            path.unlink(missing_ok=True)
            note_of(path).unlink(missing_ok=True)

    def offered(self, at_most: int, without: Collection[str] = ()) -> list[Offered]:
        """Return at most ``at_most`` files in ``out``, an arbitrary selection, sorted by the time of modification.

        Left out are hidden files, the folders of the targets ``without``, and what is in ``ignored`` after the search:
        empty files, names that end as in NOT_OFFERED, links and special files. Folders that could not be read are in
        ``unread``, and are logged once.
        """
        search = _Search(without)
        try:
            self.identity.check()
            files = list(islice(search.files(self.out), at_most))
        except OSError as fault:
            files = []
            search.unread[str(self.out)] = fault
        for folder, error in search.unread.items():
            if folder not in self.unread:
                log.error("folder_not_read", folder=folder, error=error.strerror)
        is_complete = len(files) < at_most and not without
        self.unread = search.unread if is_complete else self.unread | search.unread
        self.ignored = search.ignored if is_complete else self.ignored | search.ignored
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

    def in_sent(self, relative_path: Path, day: str) -> Path:
        """Return the path in ``sent`` of a file with this path in ``out``, by the day of its modification."""
        return self.sent / day / with_room_for_note(relative_path)

    def in_failed(self, relative_path: Path) -> Path:
        return self.failed / with_room_for_note(relative_path)

    def move(
        self, path: Path, folder: Path, note: Mapping[str, object], mark: str = "", expected: Offered | None = None
    ) -> Path | None:
        """Move a file to ``sent`` or ``failed``, under the same relative path; write a note beside it.

        Return the new path, with ``mark`` or a number if another file has the path. If the file is not ``expected``,
        move it back and return None. The former note of the file in ``sent`` or ``failed`` is removed. Raises OSError.
        """
        top, *parts = path.relative_to(self.root).parts
        relative_path = Path(*parts[1 if top == self.sent.name else 0 :])
        is_sent = folder == self.sent
        wanted = self.in_sent(relative_path, day_of(path.lstat())) if is_sent else self.in_failed(relative_path)
        with self.writing(path), self._reserved(path, wanted, mark) as destination:
            self.write_note(destination, note)
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
    def _reserved(self, path: Path, wanted: Path, mark: str) -> Iterator[Path]:
        """Choose the destination of a file. While the file is moved, no other thread gets the destination or old path.

        Otherwise another file at the destination would be overwritten, or the note of another file at the old path
        would be removed.
        """
        with self._choice:
            destination = free_path(wanted, mark, self._being_moved)
            self._being_moved |= {path, destination}
        try:
            yield destination
        finally:
            with self._choice:
                self._being_moved -= {path, destination}


class _Search:
    """One search in ``out``."""

    def __init__(self, without: Container[str]) -> None:
        """``without``: names directly in ``out`` that are left out."""
        self._without = without
        self.unread: dict[str, OSError] = {}  #: an error of each folder that cannot be read or examined
        self.ignored: dict[str, Ignored] = {}

    def files(self, folder: Path, depth: int = 1) -> Iterator[Offered]:
        """Yield the files below a folder."""
        for entry in self._entries(folder):
            if entry.name.startswith(".") or entry.name.endswith(NOTE) or (depth == 1 and entry.name in self._without):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
                if reason := _reason_to_ignore(entry.name, status, depth):
                    self.ignored[entry.path] = Ignored(
                        reason, status.st_ctime_ns, reason in (UNFINISHED_TEXT, EMPTY_TEXT)
                    )
                elif stat.S_ISDIR(status.st_mode):
                    yield from self.files(Path(entry.path), depth + 1)
                else:
                    yield Offered(Path(entry.path), status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            except FileNotFoundError:
                pass  # the file was removed during the search
            except OSError as error:  # the folder may be listed, but not entered
                self.unread.setdefault(str(folder), error)

    def _entries(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as entries:
                yield from entries
        except FileNotFoundError:
            pass  # the folder was removed during the search
        except OSError as error:
            self.unread.setdefault(str(folder), error)


def _reason_to_ignore(name: str, status: os.stat_result, depth: int) -> str:
    """Return why a file or folder is left out; empty if it is not. ``depth``: number of names below ``out``."""
    if name.lower().endswith(UNFINISHED):
        return UNFINISHED_TEXT
    if stat.S_ISDIR(status.st_mode):
        return "a folder in too many folders" if depth == 2 * DEPTH_MAX else ""
    if stat.S_ISLNK(status.st_mode):
        return "a symbolic link"
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    return "" if status.st_size else EMPTY_TEXT


def day_of(status: os.stat_result) -> str:
    """Return the day (UTC) of the last modification of a file, which is its folder in ``sent``."""
    return day_text(status.st_mtime_ns)


def day_text(modified_ns: int) -> str:
    """Return the day of a time, as YYYY-MM-DD; that of 1970 for a time that no calendar has."""
    try:
        text = utc_text(modified_ns // 10**6)
    except OverflowError:
        text = utc_text(0)
    return text.partition("T")[0]


def file_name_for(text: str) -> str:
    """Return a valid file name for a foreign text: the text, or a name with a digest of it."""
    name = _FORBIDDEN.sub("_", in_page(text)).strip(". ")
    if name == text and len(os.fsencode(name)) <= NAME_BYTES_MAX and not name.lower().endswith(NOT_OFFERED):
        return name
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    stem, dot, ending = name.rpartition(".")
    ending = (
        f"{dot}{ending}" if stem and len(os.fsencode(ending)) <= 16 and not name.lower().endswith(NOT_OFFERED) else ""
    )
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
