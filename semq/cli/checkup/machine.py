"""Checks of the configuration file, the data folder and free space."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding
from semq.config.defaults import PREFIX
from semq.config.settings import STARS, Settings
from semq.sizes import size

AMPLE = 4  # multiple of the free space below which publishers are blocked


def check(settings: Settings) -> Iterator[Finding]:
    """Check file, folder and disk."""
    yield _file(settings)
    folder = settings.data_dir
    there = _nearest(folder)
    hindrance = _hindrance(folder)
    if hindrance:
        advice = "Start node and doctor as the user to whom the folder belongs, or set node.data_dir."
        yield Finding("data folder", FAILING, hindrance, advice)
    else:
        yield Finding(
            "data folder", OK, str(folder) if there == folder else f"{folder} will be made at the first start"
        )
        yield _space(there, settings)
    yield from _paths(settings)
    program = next(iter(settings.alerts.command), None)
    if program is not None:
        found = shutil.which(program)
        advice = "" if found else "alerts.command names a program of this machine, with its path if necessary."
        yield Finding(
            "alerts",
            OK if found else FAILING,
            found or f"cannot run {program}",
            advice,
        )


def _paths(settings: Settings) -> Iterator[Finding]:
    """Check the other paths in the configuration: files to be read, folders to be written."""
    for key, file in _files(settings):
        try:
            with file.open("rb"):
                pass
        except OSError as error:
            advice = f"Correct {key}, or let this user read the file."
            yield Finding("file", FAILING, f"{key}: {file}: {error.strerror or type(error).__name__}", advice)
    extracts = settings.extracts
    folders = [("tls.dir", settings.tls.dir), ("extract.folder", Path(extracts) if "://" not in extracts else None)]
    for key, folder in folders:
        if folder is not None and settings.data_dir not in folder.parents and (hindrance := _hindrance(folder)):
            yield Finding("folder", FAILING, f"{key}: {hindrance}", f"Correct {key}, or let this user write there.")


def _files(settings: Settings) -> Iterator[tuple[str, Path]]:
    named = (
        ("tls.trust", settings.tls.trust),
        ("tls.passphrase_file", settings.tls.passphrase_file),
        ("secrecy.bodies_key_file", settings.secrecy.bodies_key_file),
        ("extract.salt_file", settings.extract.salt_file),
        ("telemetry.trust", settings.telemetry.trust if settings.telemetry is not None else None),
    )
    return ((key, path) for key, path in named if path is not None)


def _hindrance(folder: Path) -> str:
    """Return why a folder can be neither used nor created; empty if it can."""
    there = _nearest(folder)
    if not there.is_dir():
        return f"{there} is not a folder"
    try:
        longest, system = os.pathconf(there, "PC_NAME_MAX"), os.statvfs(there)
    except OSError as error:
        return f"{there}: {error.strerror}"
    missing = folder.relative_to(there).parts
    if any(len(os.fsencode(name)) > longest for name in missing):
        return f"{folder}: its file system allows names of at most {longest} bytes"
    if system.f_flag & os.ST_RDONLY:
        return f"{there} is in a read-only file system"
    if missing and system.f_blocks == 0:
        return f"no folder can be created in {there}: its file system stores no files"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{there} cannot be written by this user"
    return ""


def _file(settings: Settings) -> Finding:
    detail = f"a {settings.node.kind} node, {settings.node.id}"
    path = settings.file
    if path is None:
        return Finding("configuration", OK, detail)
    holds = any(row.value == STARS and not row.origin.startswith(PREFIX) for row in settings.explain())
    if holds and path.stat().st_mode & 0o007:
        advice = f"chmod 640 {path}, or take the passwords from the environment."
        return Finding("configuration", WARNING, f"{detail}; every user of this machine can read its passwords", advice)
    return Finding("configuration", OK, detail)


def _space(folder: Path, settings: Settings) -> Finding:
    free = shutil.disk_usage(folder).free
    needed = settings.amqp.min_free_disk_bytes
    detail = f"{size(free)} free where {folder} lies"
    if settings.database.url is None and free < needed:
        return Finding("disk", FAILING, f"{detail}: publishers are blocked below {size(needed)}", "Make room.")
    if free < AMPLE * needed:
        return Finding("disk", WARNING, detail, f"Make room: below {size(needed)} publishers are blocked.")
    return Finding("disk", OK, detail)


def _nearest(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(one for one in (folder, *folder.parents) if is_there(one))


def is_there(path: Path) -> bool:
    """Return whether this user can see a path; a path in a folder without access counts as absent."""
    try:
        return path.exists()
    except OSError:
        return False
