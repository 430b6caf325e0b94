"""Files and folders of extracts and runs, on a disk, a share or an object store.

A reader sees a file completely or not at all: a file on a disk is written under a temporary name, forced to disk and
renamed; an upload to an object store becomes visible when it is closed. On an object store, which has no locks,
operators must avoid simultaneous runs of one date.
"""

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pyarrow import ArrowInvalid, NativeFile, fs

from spark_reconcile.errors import BadRunRequest, BeingRun
from spark_reconcile.sources.footer import sort_encodings

_PATTERN = re.compile(r"[][{}*?\\]")  # characters with a meaning in patterns of paths
_BLOCK = 1 << 20
LOCK_PAUSE_S = 0.1


@dataclass(frozen=True)
class Place:
    """A file or a folder, which need not exist yet."""

    system: fs.FileSystem
    path: str
    scheme: str = ""  #: scheme of the address for Spark; empty for a disk

    @classmethod
    def at(cls, address: str | Path) -> "Place":
        """Return the place at a path or an address such as ``s3://bucket/semq``. Raises BadRunRequest."""
        text = str(address)
        if "://" not in text or text.startswith("file://"):
            return cls(fs.LocalFileSystem(), str(Path(text.removeprefix("file://")).absolute()))
        try:
            system, path = fs.FileSystem.from_uri(text)
        except (ArrowInvalid, OSError) as error:
            raise BadRunRequest("The address of the folder cannot be used.", address=text[:200]) from error
        scheme = text.partition("://")[0]
        return cls(system, path, {"s3": "s3a"}.get(scheme, scheme))

    def __truediv__(self, name: str) -> "Place":
        return Place(self.system, f"{self.path}/{name}", self.scheme)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}" if self.scheme else self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def uri(self) -> str:
        """The address for Spark, without percent-encoding, to write to."""
        return str(self) if self.scheme else f"file://{self.path}"

    @property
    def uri_to_read(self) -> str:
        """The address for Spark's readers, which take it as a pattern (Hadoop's ``FileSystem.globStatus``)."""
        return _PATTERN.sub(r"\\\g<0>", self.uri)

    @property
    def is_local(self) -> bool:
        return not self.scheme

    def exists(self) -> bool:
        return bool(self.system.get_file_info(self.path).type != fs.FileType.NotFound)

    def folders(self) -> list["Place"]:
        """Return the folders in this folder, sorted, without hidden ones; none if this folder does not exist."""
        return [self / name for name, kind, _ in self._entries() if kind == fs.FileType.Directory]

    def files(self) -> list["Place"]:
        """Return the files in this folder, sorted, without hidden ones; none if this folder does not exist."""
        return [self / name for name in self.sizes()]

    def sizes(self) -> dict[str, int]:
        """Return the sizes of the files in this folder, by name, without hidden ones; none if it does not exist."""
        return {name: size for name, kind, size in self._entries() if kind == fs.FileType.File}

    def size(self) -> int:
        """Return the size of this file in bytes; -1 if it does not exist."""
        info = self.system.get_file_info(self.path)
        return int(info.size) if info.type == fs.FileType.File else -1

    def open(self) -> NativeFile:
        return self.system.open_input_file(self.path)

    def read(self, limit: int) -> bytes:
        """Return at most ``limit`` + 1 bytes of this file, one more than ``limit`` if the file is too long."""
        with self.system.open_input_stream(self.path) as stream:
            return bytes(stream.read(limit + 1))

    def sha256(self) -> str:
        digest = hashlib.sha256()
        with self.system.open_input_stream(self.path) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
        return digest.hexdigest()

    def write(self, content: bytes) -> None:
        with self.writer() as stream:
            stream.write(content)

    @contextmanager
    def writer(self) -> Iterator[NativeFile]:
        """Create or replace this file when the block ends.

        If the block raises, a file on a disk stays unchanged; on an object store, part of the content may replace it.
        """
        if not self.is_local:
            with self.system.open_output_stream(self.path) as stream:
                yield stream
            return
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(self.path).with_name(f".{self.name}.{os.getpid()}")
        try:
            with self.system.open_output_stream(str(temporary)) as stream:
                yield stream
            _fsync(temporary)
            temporary.replace(self.path)
            _fsync(Path(self.path).parent)
        finally:
            temporary.unlink(missing_ok=True)

    def move(self, to: "Place") -> None:
        self.system.move(self.path, to.path)

    def make_reproducible(self) -> None:
        """Make names and footers of Spark's files in this folder reproducible.

        On an object store, where renaming copies files, do nothing.
        """
        if self.is_local:
            for file in Path(self.path).iterdir():
                if file.name.startswith(".part-"):
                    file.unlink()  # a checksum file with the old name
                elif file.name.startswith("part-"):
                    sort_encodings(file)
                    file.rename(file.with_name(f"{file.name[:10]}.parquet"))

    def make(self) -> None:
        self.system.create_dir(self.path, recursive=True)

    def remove(self) -> None:
        if self.is_local and Path(self.path).is_dir():
            shutil.rmtree(self.path)
            return
        kind = self.system.get_file_info(self.path).type
        if kind == fs.FileType.Directory:
            self.system.delete_dir(self.path)
        elif kind != fs.FileType.NotFound:
            self.system.delete_file(self.path)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Create this folder if needed, and lock it for the block. On an object store, do nothing.

        Raises BeingRun if another process has the lock.
        """
        if not self.is_local:
            yield
            return
        self.make()
        descriptor = os.open(f"{self.path}/.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not _try_lock(descriptor):
                raise BeingRun(folder=self.path)
            yield
        finally:
            os.close(descriptor)

    def _entries(self) -> list[tuple[str, fs.FileType, int]]:
        selector = fs.FileSelector(self.path, allow_not_found=True)
        entries = [(info.base_name, info.type, info.size or 0) for info in self.system.get_file_info(selector)]
        return sorted(entry for entry in entries if not entry[0].startswith("."))


def _try_lock(descriptor: int) -> bool:
    """Try to lock a file, and once more after a pause, because the console takes the lock for a moment."""
    for pause_s in (LOCK_PAUSE_S, 0.0):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(pause_s)
    return False


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
