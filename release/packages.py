"""Wheel and sdist of the sources under version control. The same sources give the same bytes, on any machine."""

import gzip
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
FIRST_DATE = 315_532_800  # 1980, in seconds since 1970: the first date that a wheel can have
BUILD = "import sys; from setuptools import build_meta; build_meta.build_{}(sys.argv[1])"


def build(folder: Path, root: Path = ROOT) -> tuple[Path, Path]:
    """Build wheel and sdist into a folder by the setuptools of this environment, and return their paths.

    Raises CalledProcessError, with the output of setuptools.
    """
    folder.mkdir(parents=True, exist_ok=True)
    date = date_of_sources(root)
    with TemporaryDirectory(prefix="semq-release-") as temporary:
        for form in ("sdist", "wheel"):
            sources = Path(temporary) / form
            export(root, sources)
            subprocess.run(
                [sys.executable, "-P", "-c", BUILD.format(form), str(folder.resolve())],
                cwd=sources, env=os.environ | {"SOURCE_DATE_EPOCH": str(date)}, umask=0o022,
                check=True, capture_output=True, text=True,
            )  # fmt: skip
    [wheel], [sdist] = folder.glob("semq-*.whl"), folder.glob("semq-*.tar.gz")
    _normalize(sdist, date)
    return wheel, sdist


def locked_versions(group: str, root: Path = ROOT) -> str:
    """Return the versions of the lock of a group as constraints of pip."""
    lock = (root / f"requirements-{group}.lock").read_text("utf-8")
    return "".join(f"{line}\n" for line in re.findall(r"^([\w.-]+==.+?) \\$", lock, re.MULTILINE))


def date_of_sources(root: Path = ROOT) -> int:
    """Return the date of the newest commit, in seconds since 1970; FIRST_DATE outside of a repository."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True, check=False
    )  # fmt: skip
    return int(done.stdout) if done.returncode == 0 else FIRST_DATE


def is_committed(root: Path = ROOT) -> bool:
    """Return whether the sources are those of a commit, without changes."""
    done = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=False)
    return done.returncode == 0 and not done.stdout


def export(root: Path, folder: Path) -> None:
    """Copy the files under version control, as they are in the folder of work, with modes that no umask changes."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = root / name, folder / name
        if source.is_file():
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            target.chmod(0o755 if os.access(source, os.X_OK) else 0o644)


def _normalize(sdist: Path, date: int) -> None:
    """Write an sdist anew, with one date, no owner, and members in the order of their names."""
    with tarfile.open(sdist) as archive:
        members = [
            (member, stream.read() if (stream := archive.extractfile(member)) is not None else b"")
            for member in sorted(archive, key=lambda one: one.name)
        ]
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, data in members:
            member.mtime, member.uid, member.gid, member.uname, member.gname = date, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            archive.addfile(member, io.BytesIO(data))
    sdist.write_bytes(gzip.compress(content.getvalue(), mtime=date))
