"""Creation of the database cluster of an embedded Postgres, and its settings."""

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from types import MappingProxyType

from semq.store.embedded.errors import ServerFailed
from semq.store.embedded.identity import SystemUser
from semq.store.embedded.programs import Programs
from semq.store.files import sync_folder, write_safely

ROLE = DATABASE = "semq"
INITDB_S_MAX = 300

# The caller's PG… variables must not apply to this server. Messages must be English, because ``server`` reads them.
ENVIRONMENT: Mapping[str, str] = MappingProxyType({"PATH": os.defpath, "LC_ALL": "C"})

# Size of a file of the write-ahead log. While a commit fills a new file with zeros, all commits wait: 40 to 55 ms with
# 16 MiB, the default of Postgres.
WAL_FILE_MIB = 1

# Passed on the command line at each start, so that a new version of SEMQ applies its own values to existing data.
SETTINGS: Mapping[str, str] = MappingProxyType({
    # a confirmed COMMIT is on the disk (PROTOCOL.md section 14)
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "data_sync_retry": "off",
    # for a small machine that has other tasks, too
    "shared_buffers": "96MB",
    "max_connections": "60",
    "max_wal_size": "1GB",
    "min_wal_size": "512MB",  # files kept for reuse
    "checkpoint_timeout": "15min",
    "jit": "off",  # short statements only: compilation costs more than it saves
    # queues: rows live for seconds, so vacuum runs often
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_cost_delay": "1ms",
    # reachable from this machine only
    "listen_addresses": "127.0.0.1",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    # log only rare events, in UTC
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    "log_timezone": "UTC",
    "timezone": "UTC",
})  # fmt: skip


def make_cluster(data: Path, password_file: Path, programs: Programs, identity: SystemUser) -> None:
    """Run initdb in a new folder and move the result to ``data``, so that a kill leaves nothing incomplete there.

    Raises ServerFailed(log) with the last lines of initdb's output.
    """
    _remove_unfinished(data)
    _make_password(password_file)
    fresh = Path(mkdtemp(prefix=f"{data.name}.new-", dir=data.parent))
    for path in (fresh, password_file):
        identity.give(path)
    argv = identity.command(
        programs.initdb,
        f"--pgdata={fresh}",
        f"--username={ROLE}",
        f"--pwfile={password_file}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "--data-checksums",
        f"--wal-segsize={WAL_FILE_MIB}",
    )
    try:
        result = subprocess.run(
            argv, cwd="/", env=dict(ENVIRONMENT), capture_output=True, text=True, timeout=INITDB_S_MAX, check=False
        )
    except subprocess.TimeoutExpired as error:
        outputs = (error.stdout, error.stderr)  # bytes in spite of ``text``, or None
        output = b"".join(output for output in outputs if isinstance(output, bytes)).decode(errors="replace")
        raise ServerFailed(f"initdb did not end within {INITDB_S_MAX} seconds.", log=last_lines(output)) from error
    if result.returncode != 0:
        raise ServerFailed("initdb could not make a database cluster.", log=last_lines(result.stdout + result.stderr))
    fresh.rename(data)
    sync_folder(data.parent)
    _remove_unfinished(data)


def _remove_unfinished(data: Path) -> None:
    """Remove the folders of earlier attempts. An initdb whose node was killed may still write to one."""
    for folder in data.parent.glob(f"{data.name}.new*"):
        shutil.rmtree(folder, ignore_errors=True)


def last_lines(text: str, count: int = 12) -> str:
    """Return the end of a log, for an error message."""
    return "\n".join(text.strip().splitlines()[-count:])


def _make_password(file: Path) -> None:
    if file.exists():
        return
    write_safely(file, (secrets.token_urlsafe(24) + "\n").encode(), 0o600)
