"""Documents as files: reading files to be sent, writing received documents to a folder, and making that folder.

Names of written files come from foreign text: characters that some file systems refuse are replaced, and long names are
shortened. If the folder nevertheless refuses a name, the file is called ``document-`` and a digest.
"""

import os
import re
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path, PurePath

from semq.app import Document
from semq.app.file_body import FileBody
from semq.cli.errors import EmptyDocument, NoFileNamed, UnusableFile
from semq.foreign_text import in_page

ENDING_BYTES_MAX = 24  # longest suffix that a shortened name keeps
STDIN = "-"
LARGE = 4 << 20  # bytes; a larger file is read while it is sent
_REFUSED = re.compile(r'[\x00-\x1f"*/:<>?\\|\ufffd]')  # characters that some system refuses in file names


def read_bodies(files: list[str] | None, *, allow_empty: bool) -> Iterator[tuple[str, bytes | FileBody]]:
    """Yield the name and the body of each file; the name ``-`` is standard input.

    Without files, standard input is read unless it is a terminal. Regular files are checked for emptiness before the
    first one is yielded, so that nothing is sent if one of them is empty.

    Raises NoFileNamed, EmptyDocument, UnusableFile.
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
    """Return the beginning of a body."""
    return next(iter(body.blocks()), b"") if isinstance(body, FileBody) else body


def _is_empty(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size == 0
    except OSError:
        return False  # `_read` raises the error


def _read(name: str) -> bytes | FileBody:
    try:
        if name != STDIN and Path(name).is_file() and Path(name).stat().st_size > LARGE:
            return FileBody(Path(name))
        return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()
    except OSError as error:
        raise UnusableFile(file=name, fault=error.strerror) from error


def file_name(lk0: str, key: str) -> str:
    """Return the file name of a document: its locator and the last part of its key.

    A document always has the same file name. Different documents have different names: if the name had to be changed or
    shortened, it contains a digest.
    """
    from semq.store.files import NAME_BYTES_MAX

    last_part = re.split(r"[/\\]", key.rstrip("/\\"))[-1].strip(". ")
    wanted_name = f"{lk0}-{last_part}" if last_part else lk0
    name = _REFUSED.sub("_", in_page(wanted_name))
    if name == wanted_name and len(os.fsencode(name)) <= NAME_BYTES_MAX:
        return name
    digest = sha256(f"{lk0}-{key}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
    ending = PurePath(name.removeprefix(lk0)).suffix
    ending = ending if len(os.fsencode(ending)) <= ENDING_BYTES_MAX else ""
    stem_bytes_max = NAME_BYTES_MAX - len(os.fsencode(f"~{digest}{ending}"))
    stem = os.fsencode(name.removesuffix(ending))[:stem_bytes_max].decode("utf-8", "ignore")
    return f"{stem}~{digest}{ending}"


def make_usable(folder: Path) -> None:
    """Make a folder for documents if it is missing, and write to it. Raises UnusableFile."""
    try:
        if folder.exists() and not folder.is_dir():
            raise UnusableFile(file=str(folder), fault="is not a folder")
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".{os.getpid()}.part"
        probe.touch()
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise UnusableFile(file=str(folder), fault=error.strerror) from error


def write_body(folder: Path, document: Document) -> Path:
    """Write a document to a file in a folder; return its path when it is on the disk.

    A repeated delivery of the document replaces the file. Raises UnusableFile.
    """
    name = file_name(document.lk0, document.app_key.key)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return _write(folder, name, document)
        except OSError:  # the file system allows only shorter names, or a folder has this name
            return _write(folder, f"document-{sha256(name.encode()).hexdigest()[:32]}", document)
    except OSError as error:
        raise UnusableFile(file=str(folder / name), fault=error.strerror) from error


def _write(folder: Path, name: str, document: Document) -> Path:
    from semq.store.files import write_blocks_safely

    path = folder / name
    write_blocks_safely(path, document.blocks(), size=document.size)
    return path
