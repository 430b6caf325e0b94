"""The ground that a node stands on: its configuration file, its folder, the space on the disk."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding
from semq.cli.values import size
from semq.config.settings import PREFIX, STARS, Settings

AMPLE = 4  # times the free space below which publishers are blocked


def look(settings: Settings) -> Iterator[Finding]:
    """Findings on file, folder and disk."""
    yield _file(settings)
    folder = settings.data_dir
    there = _nearest(folder)
    if not os.access(there, os.W_OK | os.X_OK):
        advice = "Start node and doctor as the user to whom the folder belongs, or set node.data_dir."
        yield Finding("data folder", FAILING, f"{there} cannot be written by this user", advice)
    elif there != folder:
        yield Finding("data folder", OK, f"{folder} will be made at the first start")
    else:
        yield Finding("data folder", OK, str(folder))
    yield _space(there, settings)
    program = next(iter(settings.alerts.command), None)
    if program is not None:
        found = shutil.which(program)
        advice = "" if found else "alerts.command names a program of this machine, with its path if need be."
        yield Finding("alerts", OK if found else FAILING, found or f"{program} is no program here", advice)


def _file(settings: Settings) -> Finding:
    said = f"a {settings.node.kind} node, {settings.node.id}"
    path = settings.file
    if path is None:
        return Finding("configuration", OK, said)
    holds = any(row.value == STARS and not row.origin.startswith(PREFIX) for row in settings.explain())
    if holds and path.stat().st_mode & 0o007:
        advice = f"chmod 640 {path}, or take the passwords from the environment."
        return Finding("configuration", WARNING, f"{said}; everybody on this machine can read its passwords", advice)
    return Finding("configuration", OK, said)


def _space(folder: Path, settings: Settings) -> Finding:
    free = shutil.disk_usage(folder).free
    needed = settings.amqp.min_free_disk_bytes
    said = f"{size(free)} free where {folder} lies"
    if settings.database.url is None and free < needed:
        return Finding("disk", FAILING, f"{said}: publishers are blocked below {size(needed)}", "Make room.")
    if free < AMPLE * needed:
        return Finding("disk", WARNING, said, f"Make room: below {size(needed)} publishers are blocked.")
    return Finding("disk", OK, said)


def _nearest(folder: Path) -> Path:
    """The folder, or the first one above it that is there."""
    return next(one for one in (folder, *folder.parents) if is_there(one))


def is_there(path: Path) -> bool:
    """Whether this user can see it: what lies in a folder that cannot be entered is not there."""
    try:
        return path.exists()
    except OSError:
        return False
