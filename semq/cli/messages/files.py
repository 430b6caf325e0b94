"""Documents in files: reading files to be sent, and writing received documents under names that every file system
accepts.

The name of a file consists of the locator and the key of the document. Both are foreign text, which is cleaned and
shortened here. The file is written completely or not at all, and is on the disk before its document is acknowledged.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path, PurePath

from semq.app import Document
from semq.app.file_body import FileBody
from semq.cli.errors import EmptyDocument, NoFileNamed, UnreadableFile
from semq.foreign_text import in_page

NAME_BYTES_MAX = 255  # limit of file names on the common file systems
ENDING_BYTES_MAX = 24  # longest suffix that is kept when a name is shortened
STDIN = "-"
LARGE = 4 << 20  # bytes
_UNFIT = re.compile(r'[\x00-\x1f"*/:<>?\\|\ufffd]')  # in file names of one system or another


def read_bodies(files: list[str] | None, *, allow_empty: bool) -> Iterator[tuple[str, bytes | FileBody]]:
    """Yield the name and the bytes of each file, ``-`` for standard input; without files standard input if it is a
    pipe.

    Files are checked before the first one is yielded, so that an empty one stops the command. Raises NoFileNamed,
    EmptyDocument, UnreadableFile.
    """
    if not files and sys.stdin.isatty():
        raise NoFileNamed
    for name in files or []:
        if not allow_empty and name != STDIN and _is_empty(Path(name)):
            raise EmptyDocument(file=name)
    for name in files or [STDIN]:
        body = _read(name)
        if not body and not allow_empty:
            raise EmptyDocument(file=name) if files else NoFileNamed
        yield name, body


def first_block(body: bytes | FileBody) -> bytes:
    """Return the beginning of a body, by which its type is recognised."""
    return next(iter(body.blocks()), b"") if isinstance(body, FileBody) else body


def _is_empty(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size == 0
    except OSError:
        return False  # reading the file will raise the error


def _read(name: str) -> bytes | FileBody:
    """Return the bytes of a file; a large one is read while it is sent."""
    try:
        if name != STDIN and Path(name).is_file() and Path(name).stat().st_size > LARGE:
            return FileBody(Path(name))
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise UnreadableFile(file=name, fault=error.strerror) from error


def file_name(lk0: str, key: str) -> str:
    """Return the file name of a document: its locator, and the last part of its key as far as it fits.

    The same document always has the same name, and different documents have different ones: a shortened name ends in a
    digest.
    """
    last = re.split(r"[/\\]", key.rstrip("/\\"))[-1].strip(". ")
    whole = f"{lk0}-{last}" if last else lk0
    name = _UNFIT.sub("_", in_page(whole))
    if name == whole and len(os.fsencode(name)) <= NAME_BYTES_MAX:
        return name
    digest = sha256(f"{lk0}-{key}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    ending = PurePath(name.removeprefix(lk0)).suffix
    ending = ending if len(os.fsencode(ending)) <= ENDING_BYTES_MAX else ""
    room = NAME_BYTES_MAX - len(os.fsencode(f"~{digest}{ending}"))
    stem = os.fsencode(name.removesuffix(ending))[:room].decode("utf-8", "ignore")
    return f"{stem}~{digest}{ending}"


def write_body(folder: Path, document: Document) -> Path:
    """Write a document into a folder so that it survives a crash; a repetition replaces the file.

    Raises UnreadableFile.
    """
    name = file_name(document.lk0, document.app_key.key)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return _written(folder, name, document)
        except OSError:  # a file system with shorter names, or a folder of this name
            return _written(folder, f"document-{sha256(name.encode()).hexdigest()[:32]}", document)
    except OSError as error:
        raise UnreadableFile(file=str(folder / name), fault=error.strerror) from error


def _written(folder: Path, name: str, document: Document) -> Path:
    path = folder / name
    part = folder / f".{sha256(name.encode()).hexdigest()[:32]}.part"
    try:
        with part.open("wb") as stream:
            for block in document.blocks():
                stream.write(block)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    entries = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(entries)
    finally:
        os.close(entries)
    return path
