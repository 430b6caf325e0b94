"""Checks of configuration file, data folder, free space, other configured paths, and alert program."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from pydantic import SecretStr

from semq.cli.checkup.finding import FAILING, OK, WARNING, Finding
from semq.clock import SystemClock
from semq.config.defaults import PREFIX
from semq.config.settings import STARS, Settings, is_loopback
from semq.folders.errors import RootReplaced
from semq.folders.root_identity import RootIdentity, known_file
from semq.service.credentials import files as credential_files
from semq.service.credentials.identity import days_left
from semq.sizes import size

EXAMPLE = "example-"  # beginning of the passwords in examples/config: public, whatever the rights of the file
AMPLE_SPACE_FACTOR = 4  # warn below this multiple of amqp.min_free_disk_bytes


def check(settings: Settings) -> Iterator[Finding]:
    """Check the machine; the node need not run."""
    yield _configuration(settings)
    folder = settings.data_dir
    existing = _nearest_existing(folder)
    obstacle = _obstacle(folder)
    if obstacle:
        advice = "Start node and doctor as the user who owns the folder, or set node.data_dir."
        yield Finding("data folder", FAILING, obstacle, advice)
    else:
        detail = str(folder) if existing == folder else f"{folder} will be created at the first start"
        yield Finding("data folder", OK, detail)
        yield _space(existing, settings)
    yield from _other_paths(settings)
    program = next(iter(settings.alerts.command), None)
    if program is not None:
        yield _alert_program(program)


def _alert_program(program: str) -> Finding:
    path = shutil.which(program)
    if path is not None:
        return Finding("alerts", OK, path)
    advice = "Correct alerts.command: a program of this machine, with its path if it is not in PATH."
    return Finding("alerts", FAILING, f"cannot run {program}", advice)


def _other_paths(settings: Settings) -> Iterator[Finding]:
    now = SystemClock().wall()
    for file in credential_files.examine(settings):
        if file.fault:
            advice = f"Correct {file.setting}, or let this user read the file."
            yield Finding("file", FAILING, f"{file.setting}: {file.file}: {file.fault}", advice)
        elif file.not_after is not None and (days := days_left(file.not_after, now)) <= settings.tls.warn_days:
            verdict = WARNING if days > 0 else FAILING
            yield Finding(
                "file", verdict, f"{file.setting}: {days} days left", "Replace the file; no restart is needed."
            )
    for key, folder in _folders(settings):
        if settings.data_dir not in folder.parents and (obstacle := _obstacle(folder)):
            yield Finding("folder", FAILING, f"{key}: {obstacle}", f"Correct {key}, or let this user write there.")
    for number, section in enumerate(settings.folders):
        try:
            RootIdentity(section.path, (), known_file(settings.data_dir, section.path)).compare()
        except RootReplaced as error:
            yield Finding("folder", FAILING, f"folders.{number}.path: {error}", error.remedy)
        except OSError as error:
            advice = "Let this user read the folder, and the node's data folder."
            yield Finding("folder", FAILING, f"folders.{number}.path: {error.filename}: {error.strerror}", advice)


def _folders(settings: Settings) -> Iterator[tuple[str, Path]]:
    if settings.tls.dir is not None:
        yield "tls.dir", settings.tls.dir
    if "://" not in settings.extracts:
        yield "extract.folder", Path(settings.extracts)
    for number, folder in enumerate(settings.folders):
        yield f"folders.{number}.path", folder.path


def _obstacle(folder: Path) -> str:
    """Return why this user cannot use a folder, or create it if it is missing; empty if there is no obstacle."""
    existing = _nearest_existing(folder)
    if not existing.is_dir():
        return f"{existing} is not a folder"
    try:
        name_bytes_max, system = os.pathconf(existing, "PC_NAME_MAX"), os.statvfs(existing)
    except OSError as error:
        return f"{existing}: {error.strerror}"
    missing = folder.relative_to(existing).parts
    if any(len(os.fsencode(name)) > name_bytes_max for name in missing):
        return f"{folder}: its file system allows names of at most {name_bytes_max} bytes"
    if system.f_flag & os.ST_RDONLY:
        return f"{existing} is in a read-only file system"
    if missing and system.f_blocks == 0:
        return f"no folder can be created in {existing}: its file system stores no files"
    if not os.access(existing, os.W_OK | os.X_OK):
        return f"{existing} cannot be written by this user"
    return ""


def _configuration(settings: Settings) -> Finding:
    detail = f"a {settings.node.kind} node, {settings.node.id}"
    path = settings.file
    if path is None:
        return Finding("configuration", OK, detail)
    values = settings.values()  # without values in lists, which `explain` includes
    secrets = [row.key for row in settings.explain() if row.value == STARS and not row.origin.startswith(PREFIX)]
    public = [key for key in secrets if _is_example(values.get(key))]
    if len(secrets) > len(public) and path.stat().st_mode & 0o007:
        advice = f"`chmod 640 {quote(str(path))}`, or set the passwords by environment variables."
        return Finding("configuration", WARNING, f"{detail}; all users have rights to this file with passwords", advice)
    if public and not is_loopback(settings.amqp.host):
        advice = "Set another password for each: other machines can reach this node."
        return Finding("configuration", WARNING, f"{detail}; passwords of the examples: {', '.join(public)}", advice)
    return Finding("configuration", OK, detail)


def _is_example(value: object) -> bool:
    """Return whether a value is a password of examples/config, which are public."""
    return isinstance(value, SecretStr) and value.get_secret_value().startswith(EXAMPLE)


def _space(folder: Path, settings: Settings) -> Finding:
    free = shutil.disk_usage(folder).free
    needed = settings.amqp.min_free_disk_bytes
    detail = f"{size(free)} free in the file system of {folder}"
    has_embedded_database = settings.database.url is None
    blocks_publishers = has_embedded_database and settings.node.kind == "local"
    advice = "Free disk space" + (f": below {size(needed)} publishers are blocked." if blocks_publishers else ".")
    if has_embedded_database and free < needed:
        return Finding("disk", FAILING, f"{detail}, less than {size(needed)}", advice)
    if free < AMPLE_SPACE_FACTOR * needed:
        return Finding("disk", WARNING, detail, advice)
    return Finding("disk", OK, detail)


def _nearest_existing(folder: Path) -> Path:
    """Return the folder, or its nearest parent that exists."""
    return next(path for path in (folder, *folder.parents) if exists(path))


def exists(path: Path) -> bool:
    """Return whether a path exists; a path in a folder without access counts as absent."""
    try:
        return path.exists()
    except OSError:
        return False
