"""The folders of one root, the names in them, and the notes beside documents.

A note is a JSON file beside a document, named after it. It is written before the document appears under its name, so
that every reader of the document finds the note. Names from other systems are made valid here.
"""

import json
import os
import re
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from semq.folders.errors import BadName, BadPlace
from semq.foreign_text import in_page
from semq.store.files import sync_folder, write_safely
from semq.umx_t.app_key import AppKey

log = structlog.get_logger("semq.folders")

NOTE = ".semq.json"
NOT_OFFERED = (".part", ".tmp", "~", NOTE)  # endings of names that applications give to unfinished files
NAME_BYTES_MAX = 200  # below 255, because a note and a temporary file have longer names
DEPTH_MAX = 4  # target, type, subtype, name
_UNFIT = re.compile(r'[\x00-\x1f"*/:<>?\\|\ufffd]')  # characters that some system forbids in file names


class Offered(NamedTuple):
    """A file in ``out`` at the time of the search."""

    path: Path
    size: int  # bytes
    modified_ns: int
    changed_ns: int  #: ctime, which a move away and back changes; inode numbers are not stable everywhere

    def is_still(self, status: os.stat_result, *, moved: bool = False) -> bool:
        """Whether ``status`` is of this file with this content. ``moved``: it was renamed since, which changes
        ``changed_ns``.
        """
        now = (status.st_size, status.st_mtime_ns)
        return now == (self.size, self.modified_ns) and (moved or status.st_ctime_ns == self.changed_ns)


class Route(NamedTuple):
    """The target and AppKey of a file, from the names of the folders around it."""

    target: str
    app_key: AppKey


class Layout:
    """One root."""

    def __init__(self, root: Path, domain: str = "") -> None:
        self.root = root
        self.domain = domain  #: domain of the AppKeys of documents that are sent
        self.out, self.sent, self.failed, self.arrived = (root / name for name in ("out", "sent", "failed", "in"))

    def make(self) -> None:
        """Create the folders. Raises OSError."""
        for folder in (self.out, self.sent, self.failed, self.arrived):
            folder.mkdir(parents=True, exist_ok=True)

    def offered(self, at_most: int, without: Container[str] = ()) -> list[Offered]:
        """Return the files in ``out``, the oldest first, as far as they fit into ``at_most``.

        Hidden files, unfinished ones by their name, and everything that is no regular file are left out; so are the
        folders of the targets ``without``.
        """
        found = list(islice(_files(self.out, without), at_most))
        return sorted(found, key=lambda one: (one.modified_ns, one.path))

    def route(self, path: Path) -> Route:
        """Return the target and AppKey of a file. Raises BadPlace, BadName.

        ``out/56001@buyer`` is a user of an institution: a folder cannot be called ``56001/buyer``.
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

    def place_of(self, target: str, app_key: AppKey) -> Path:
        """Return the path, relative to ``out``, of a file with this route."""
        return Path(target.replace("/", "@"), *(part for part in app_key[1:] if part))

    def move(
        self, path: Path, folder: Path, note: Mapping[str, Any], name: str = "", known: Offered | None = None
    ) -> Path | None:
        """Move a file to the same place under another folder of this root, with a note beside it.

        ``name`` distinguishes two files of one name; without it they are numbered. ``known``: the file that is meant;
        another one that has taken its path meanwhile is put back, and the result is None. Raises OSError.
        """
        place = Path(*path.relative_to(self.root).parts[1:])
        goal = free(folder / kept(place), name)
        write_note(goal, note)
        try:
            path.replace(goal)
        except OSError:
            note_of(goal).unlink(missing_ok=True)
            raise
        if known is not None and not known.is_still(goal.lstat(), moved=True):
            note_of(goal).unlink(missing_ok=True)
            goal.rename(free(path))
            return None
        sync_folder(goal.parent)
        return goal


def _files(folder: Path, without: Container[str] = (), depth: int = 1) -> Iterator[Offered]:
    for entry in _entries(folder):
        if entry.name.startswith(".") or entry.name.endswith(NOT_OFFERED) or entry.name in without:
            continue
        with suppress(FileNotFoundError):
            if entry.is_dir(follow_symlinks=False) and depth < 2 * DEPTH_MAX:
                yield from _files(Path(entry.path), depth=depth + 1)
            elif entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                facts = status.st_size, status.st_mtime_ns, status.st_ctime_ns
                yield Offered(Path(entry.path), *facts)


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the entries of a folder; an unreadable folder is reported and delays no other."""
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        pass  # removed while it was read
    except OSError as error:
        log.error("folder_not_read", folder=str(folder), error=error.strerror)


def fit(text: str) -> str:
    """Return a file name for a foreign text: without characters that file systems refuse, and not too long.

    The same text always has the same name. A changed text gets a digest of the whole, so that two different texts never
    share a name.
    """
    name = _UNFIT.sub("_", in_page(text)).strip(". ")
    if name == text and len(os.fsencode(name)) <= NAME_BYTES_MAX and not name.endswith(NOT_OFFERED):
        return name
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    stem, dot, ending = name.rpartition(".")
    ending = f"{dot}{ending}" if stem and len(os.fsencode(ending)) <= 16 and not name.endswith(NOT_OFFERED) else ""
    room = NAME_BYTES_MAX - len(os.fsencode(f"~{digest}{ending}"))
    cut = os.fsencode(name.removesuffix(ending))[:room].decode("utf-8", "ignore")
    return f"{cut}~{digest}{ending}"


def kept(place: Path) -> Path:
    """Return the place of a file outside of ``out``: a name without room for that of its note is shortened."""
    return place if len(os.fsencode(place.name)) <= NAME_BYTES_MAX else place.with_name(fit(place.name))


def marked(path: Path, mark: str) -> Path:
    """Return ``name~MARK.xml`` for ``name.xml``."""
    return path.with_name(f"{path.stem}~{mark}{path.suffix}")


def free(path: Path, mark: str = "") -> Path:
    """Return a path that no file has: this one, one with the mark, or a numbered one."""
    first = [path, marked(path, mark)] if mark else [path]
    numbered = (marked(path, f"{mark}~{number}" if mark else str(number)) for number in count(2))
    return next(one for one in chain(first, numbered) if not os.path.lexists(one))


def note_of(path: Path) -> Path:
    """Return the path of the note beside a file."""
    return path.with_name(path.name + NOTE)


def write_note(path: Path, note: Mapping[str, Any]) -> None:
    """Write the note of a file, completely or not at all. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(note, ensure_ascii=False, indent=2, default=repr)
    write_safely(note_of(path), text.encode("utf-8", "backslashreplace") + b"\n")


def read_note(path: Path) -> dict[str, Any]:
    """Return the note beside a file; empty if there is none that can be read."""
    try:
        note = json.loads(note_of(path).read_bytes())
    except (OSError, ValueError):
        return {}
    return note if isinstance(note, dict) else {}
