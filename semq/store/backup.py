"""Backups of a node's database by pg_dump, with files that the database does not contain, and their restore.

A backup is a folder, which has its name when it is complete:

    backup.json      what it is a backup of, and the checksum of each file
    database.dump    the database, in the custom format of pg_dump
    files/           if wanted: keys, passwords of roles, the configuration
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import file_digest
from pathlib import Path
from tempfile import TemporaryFile

import msgspec
import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from semq import __version__
from semq.errors import unusable_path_of
from semq.store.embedded.programs import find_programs
from semq.store.files import sync_folder, write_safely
from semq.store.postgres import schema_version
from semq.store.postgres.errors import BackupFailed, BackupUnusable, DatabaseInUse
from semq.store.reader import connection_parameters, is_unavailable, unavailable

NOTE, DUMP, FILES = "backup.json", "database.dump", "files"
UNFINISHED = ".new"  # end of the name of an unfinished backup
# At the beginning of what pg_restore writes, whatever server it is for
UNKNOWN_BEFORE_17, HEAD_BYTES = b"SET transaction_timeout = 0;\n", 4096
# Roles beside the owner that own something in this database, or have rights there.
ROLES = """
    SELECT r.rolname FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
    WHERE d.refclassid = 'pg_authid'::regclass AND r.rolname <> current_user
        AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
    GROUP BY r.rolname ORDER BY r.rolname"""
IN_USE = "SELECT coalesce(to_regclass('tb_0031'), to_regclass('semq_version')) IS NOT NULL"


class BackupSubject(Struct, frozen=True):
    """The node that is backed up, and when."""

    node: str  #: address
    made: str  #: time


class BackupNote(BackupSubject, frozen=True):
    """The node and the state that a backup holds: the content of backup.json."""

    semq: str
    revision: str  #: of the tables
    owner: str  #: role that has made the backup
    roles: list[str]  #: others, which the dump names
    checksums: dict[str, str]  #: SHA-256 of each file


def make(url: str, folder: Path, subject: BackupSubject, files: Mapping[str, Path]) -> BackupNote:
    """Make a backup in a new folder, also while the node works; return its note.

    ``files``: name in the backup | file or folder to copy, if it exists. Raises BackupFailed, StoreUnavailable,
    SchemaTooOld without tables, SchemaTooNew, UnusablePath.
    """
    with _connected(url) as connection:
        revision = schema_version.revision_of(connection)
        schema_version.refuse_other(revision)
        owner, names = connection.info.user, [str(name) for (name,) in connection.execute(ROLES)]
    unfinished = folder.with_name(folder.name + UNFINISHED)
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        (unfinished / DUMP).touch(0o600)
        _run(url, "pg_dump", "--format=custom", f"--file={unfinished / DUMP}")
        for name, source in files.items():
            _copy(source, unfinished / FILES / name)
        checksums = {str(file.relative_to(unfinished)): _checksum(file) for file in _files(unfinished)}
        note = BackupNote(subject.node, subject.made, __version__, str(revision), owner, names, checksums)
        write_safely(unfinished / NOTE, msgspec.json.format(msgspec.json.encode(note), indent=1) + b"\n", 0o600)
        unfinished.rename(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise unusable_path_of(error) or error from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return note


def check(folder: Path) -> BackupNote:
    """Check that a backup is complete, unchanged, and of tables that this version can use; return its note.

    Raises BackupUnusable, SchemaTooNew, SchemaBeforeRelease.
    """
    note = _note_of(folder)
    found = {str(file.relative_to(folder)): file for file in _files(folder)}
    # A restore copies whole folders of files/, so nothing may have been added there.
    names = {*note.checksums, *(name for name in found if name.startswith(f"{FILES}/"))}
    now = {name: _checksum(file) for name, file in found.items() if name in names}
    changed = sorted(name for name in names if name not in now or now[name] != note.checksums.get(name))
    if changed or DUMP not in names:
        raise BackupUnusable("Files of the backup have changed.", folder=str(folder), files=changed or [DUMP])
    schema_version.refuse_unknown(note.revision)
    return note


def _note_of(folder: Path) -> BackupNote:
    """Return the note of a backup. Raises BackupUnusable."""
    try:
        return msgspec.json.decode((folder / NOTE).read_bytes(), type=BackupNote)
    except (OSError, UnicodeError, msgspec.MsgspecError, RecursionError) as error:
        raise BackupUnusable(folder=str(folder), fault=str(error)) from error


def refuse_used(url: str) -> None:
    """Raise DatabaseInUse for a database with tables of SEMQ. Raises StoreUnavailable."""
    with _connected(url) as connection:
        if connection.execute(IN_USE.encode()).fetchone() == (True,):
            raise DatabaseInUse


def restore(url: str, folder: Path, note: BackupNote, make_role: Callable[[str, str], None]) -> None:
    """Restore a checked backup into a database without tables of SEMQ, in one transaction.

    ``make_role(url, name)`` makes a role that the server lacks. Raises BackupFailed, StoreUnavailable.
    """
    with _connected(url) as connection:
        present = {str(name) for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        owner = connection.info.user
    for role in note.roles:
        if role not in present:
            make_role(url, role)
    options = [] if owner == note.owner else ["--no-owner"]
    _replay(url, "--single-transaction", *options, str(folder / DUMP))


def restore_files(folder: Path, files: Mapping[str, Path]) -> tuple[list[str], list[str]]:
    """Copy files of a backup to places where nothing is; return names that were copied, and those that were not."""
    copied: list[str] = []
    kept: list[str] = []
    for name, target in files.items():
        if (folder / FILES / name).exists():
            (kept if target.exists() else copied).append(name)
            if not target.exists():
                _copy(folder / FILES / name, target)
    return copied, kept


def delete_old(newest: Path, node: str, keep: int) -> tuple[list[str], list[str]]:
    """Delete the oldest backups of a node beside its newest one, until ``keep`` remain with it; return their names.

    Folders whose note is of no backup, or damaged, stay: their names are returned as the second.
    """
    found: list[tuple[str, Path]] = []
    unknown: list[str] = []
    for note in newest.parent.glob(f"*/{NOTE}"):
        if note.parent == newest or note.parent.name.endswith(UNFINISHED):
            continue
        try:
            facts = _note_of(note.parent)
        except BackupUnusable:
            unknown.append(note.parent.name)
        else:
            if facts.node == node:
                found.append((facts.made, note.parent))
    # The newest one counts and stays, whatever the clock said when the others were made.
    old = [backup for _, backup in sorted(found, reverse=True)[keep - 1 :]]
    for backup in old:
        shutil.rmtree(backup)
    return [backup.name for backup in reversed(old)], sorted(unknown)


def _run(url: str, program: str, *options: str) -> None:
    """Run a program of Postgres on a database. Raises BackupFailed."""
    database, environment = _database(url)
    done = subprocess.run(
        [_program(program), database, *options], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
        check=False,
    )  # fmt: skip
    if done.returncode:
        raise BackupFailed(program=program, fault=done.stderr.decode(errors="replace").strip())


def _replay(url: str, *options: str) -> None:
    """Let psql run what pg_restore writes, but for a setting that servers before Postgres 17 refuse.

    If either of them fails, the transaction is not completed. Raises BackupFailed.
    """
    database, environment = _database(url)
    psql = [_program("psql"), database, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    with TemporaryFile() as faults:
        with (
            subprocess.Popen(
                [_program("pg_restore"), "--file=-", *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=faults,
            ) as source,
            subprocess.Popen(
                psql, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=faults
            ) as target,
        ):  # fmt: skip
            assert source.stdout is not None
            assert target.stdin is not None
            with suppress(BrokenPipeError), target.stdin:  # psql has failed: its status says so
                target.stdin.write(source.stdout.read(HEAD_BYTES).replace(UNKNOWN_BEFORE_17, b"", 1))
                shutil.copyfileobj(source.stdout, target.stdin)
        if target.returncode or source.returncode:
            faults.seek(0)
            failed = "psql" if target.returncode else "pg_restore"
            raise BackupFailed(program=failed, fault=faults.read().decode(errors="replace").strip())


def _program(name: str) -> str:
    return str(find_programs().folder / name)


def _database(url: str) -> tuple[str, dict[str, str]]:
    """Return the option that names a database to programs of Postgres, and their environment with its password."""
    parameters = conninfo_to_dict(url)
    password = {"PGPASSWORD": str(given)} if (given := parameters.pop("password", None)) else {}
    return f"--dbname={make_conninfo('', **parameters)}", os.environ | password | {"LC_ALL": "C"}


@contextmanager
def _connected(url: str) -> Iterator[psycopg.Connection]:
    try:
        with psycopg.connect(**connection_parameters(url, "semq-backup"), autocommit=True) as connection:
            yield connection
    except psycopg.Error as error:
        if not is_unavailable(error):
            raise
        raise unavailable(error) from error


def _copy(source: Path, target: Path) -> None:
    """Copy a file, or all files of a folder, with their permissions."""
    for file in _files(source) if source.is_dir() else [source] if source.exists() else ():
        write_safely(target / file.relative_to(source), file.read_bytes(), file.stat().st_mode & 0o777)


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*") if file.is_file())


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return file_digest(stream, "sha256").hexdigest()
