"""The Postgres server that a node runs itself if no database is configured.

Everything is in one folder of the node's data directory:

    postgres/data         the database cluster
    postgres/lock         locked by the process that uses the folder
    postgres/password     the password of the server's only role
    postgres/port         the last TCP port, used again if possible
    postgres/run          the unix socket, if its path is short enough
    postgres/server.log   the output of the server; server.log.1: earlier output

The server survives a killed node: the next start adopts it.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from semq.store.embedded.cluster import DATABASE, ENVIRONMENT, ROLE, SETTINGS, last_lines, make_cluster
from semq.store.embedded.errors import DataDirBusy, ServerFailed
from semq.store.embedded.identity import SystemUser, find_identity, refuse_foreign
from semq.store.embedded.process import (
    POLL_S,
    clear_remains,
    free_port,
    port_of,
    postmaster_of,
    send_signal,
    status_of,
    wait_gone,
)
from semq.store.embedded.programs import Programs, find_programs

LOG_BYTES_MAX = 4 * 1024 * 1024
SOCKET_PATH_MAX = 107  # bytes; the limit of Linux
SPAWNS_MAX = 5

# log texts of faults after which another start may succeed
PASSING_FAULTS = ("could not bind", "could not create any TCP/IP sockets", "pre-existing shared memory block")


class EmbeddedPostgres:
    """The embedded server of a data directory. Only one thread at a time may use it."""

    def __init__(
        self, data_dir: Path, *, start_timeout_s: float = 300.0, overrides: Mapping[str, str] | None = None
    ) -> None:
        """``overrides``: settings of Postgres that replace or extend SETTINGS."""
        self.home = data_dir.resolve() / "postgres"
        self.data = self.home / "data"
        self.log = self.home / "server.log"
        self._start_timeout_s = start_timeout_s
        self._settings = {**SETTINGS, **(overrides or {})}
        self._lock: IO[str] | None = None
        self._log_start = 0
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start the server, unless it runs already; return the URL once it answers.

        Blocks up to ``start_timeout_s``, for instance while a killed server recovers. The first start also runs initdb,
        which may take INITDB_S_MAX seconds more.

        Raises DataDirBusy, NoPostgres, DataVersionMismatch, RootRefused, DataDirForeign, ServerFailed.
        """
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_foreign(self.home)
        self._take_lock()
        try:
            programs = find_programs(self._data_major())
            identity = find_identity(programs.postgres)
            if not self.data.exists():
                self._make_cluster(programs, identity)
            self._bring_up(programs, identity)
        except BaseException:
            self._release_lock()
            raise
        return self.url

    def stop(self, patience_s: float = 60.0) -> None:
        """Stop the server if it runs, even if another process started it. Blocks.

        Open transactions are rolled back and a checkpoint is written. If this takes longer than ``patience_s``, the
        server is stopped at once, and recovers at the next start.
        """
        pid = postmaster_of(self.data)
        if pid is not None:
            send_signal(pid, signal.SIGINT)
            if not self._wait_ended(pid, patience_s):
                send_signal(pid, signal.SIGQUIT)
                self._wait_ended(pid, patience_s)
        self._release_lock()

    def running_url(self) -> str | None:
        """Return the URL of the node's database; None if the server does not run."""
        return self.url if postmaster_of(self.data) is not None else None

    @property
    def pid(self) -> int | None:
        return postmaster_of(self.data)

    @property
    def url(self) -> str:
        """The URL of the node's database."""
        return self.url_of(DATABASE)

    def url_of(self, database: str, *, tcp: bool = False) -> str:
        """Return the URL of a database of this server, through the unix socket.

        The URL is for TCP if ``tcp`` is true or the path of the socket is too long.
        """
        folder = None if tcp else self._socket_folder()
        host = quote(str(folder), safe="") if folder else "127.0.0.1"
        password = quote(self._password_file.read_text().strip(), safe="")
        return f"postgresql://{ROLE}:{password}@/{database}?host={host}&port={self._port()}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # ------------------------------------------------------------ creating and starting

    def _make_cluster(self, programs: Programs, identity: SystemUser) -> None:
        self._port_file.unlink(missing_ok=True)
        make_cluster(self.data, self._password_file, programs, identity)

    def _bring_up(self, programs: Programs, identity: SystemUser) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        spawns = 0
        while spawns < SPAWNS_MAX:
            adopted = postmaster_of(self.data) is not None
            if not adopted:
                self._spawn(programs, identity)
                spawns += 1
            if self._await_ready(deadline) and self._await_database(deadline):
                return
            if adopted:
                continue  # the adopted server was about to end
            if not any(fault in self._log_tail() for fault in PASSING_FAULTS):
                break
            self._port_file.unlink(missing_ok=True)
            time.sleep(POLL_S)
        raise ServerFailed(log=self._log_tail())

    def _spawn(self, programs: Programs, identity: SystemUser) -> None:
        run = self.home / "run"
        if self._child is not None:
            self._child.wait()  # Postgres would take the process id of a zombie for a running server
        clear_remains(self.data, run)
        port = free_port(self._port())
        self._port_file.write_text(f"{port}\n")
        run.mkdir(mode=0o700, exist_ok=True)
        # ``give_tree`` skips a folder that belongs to the owner, with its content; but data and run may be newer.
        identity.give_tree(self.home)
        for path in (self.data, run):
            identity.give_tree(path)
        settings = {**self._settings, "port": str(port), "unix_socket_directories": str(self._socket_folder() or "")}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with self._fresh_log() as log:
            # A session of its own: Ctrl-C on a terminal is for the node, which stops the server later.
            self._child = subprocess.Popen(
                identity.command(programs.postgres, "-D", str(self.data), *options),
                cwd="/",
                env=dict(ENVIRONMENT),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _await_ready(self, deadline: float) -> bool:
        """Wait until the server accepts connections; return False if it has ended. Raises ServerFailed."""
        while time.monotonic() < deadline:
            pid = postmaster_of(self.data)
            starting = self._child is not None and self._child.poll() is None
            if pid is None and not starting:
                return False
            if pid is not None and status_of(self.data) == "ready":
                return True
            time.sleep(POLL_S)
        raise ServerFailed(f"Postgres was not ready after {self._start_timeout_s:g} seconds.", log=self._log_tail())

    def _await_database(self, deadline: float) -> bool:
        """Make the database if it is missing; return False if the server has ended. Raises ServerFailed."""
        while postmaster_of(self.data) is not None:
            try:
                self._make_database()
            except psycopg.OperationalError as error:
                # Only a failed authentication is final. Other errors are temporary: the server restarts its processes,
                # or has too many clients.
                if "authentication failed" in str(error) or time.monotonic() > deadline:
                    raise ServerFailed(f"Postgres refuses the connection: {error}", log=self._log_tail()) from error
                time.sleep(POLL_S)
            else:
                return True
        return False

    def _make_database(self) -> None:
        with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    # ------------------------------------------------------------ files

    @property
    def _password_file(self) -> Path:
        return self.home / "password"

    @property
    def _port_file(self) -> Path:
        return self.home / "port"

    def _data_major(self) -> int | None:
        with suppress(FileNotFoundError):
            return int((self.data / "PG_VERSION").read_text())
        return None

    def _port(self) -> int | None:
        """Return the present or last port of the server; None before the first start."""
        with suppress(OSError, ValueError):
            return port_of(self.data) or int(self._port_file.read_text())
        return None

    def _socket_folder(self) -> Path | None:
        folder = self.home / "run"
        return folder if len(str(folder / ".s.PGSQL.65535")) <= SOCKET_PATH_MAX else None

    def _fresh_log(self) -> IO[bytes]:
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES_MAX:
            self.log.replace(self.log.with_suffix(".log.1"))
        stream = self.log.open("ab")
        self._log_start = stream.tell()
        return stream

    def _log_tail(self) -> str:
        with suppress(OSError), self.log.open("rb") as stream:
            stream.seek(max(self._log_start, self.log.stat().st_size - 8192))
            return last_lines(stream.read().decode(errors="replace"))
        return ""

    # ------------------------------------------------------------ ownership and end

    def _take_lock(self) -> None:
        if self._lock is not None:
            return
        stream = (self.home / "lock").open("a+")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.seek(0)
            holder = stream.read().strip()
            stream.close()
            raise DataDirBusy(data_dir=str(self.home.parent), pid=holder) from error
        stream.truncate(0)
        stream.write(f"{os.getpid()}\n")
        stream.flush()
        self._lock = stream

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _wait_ended(self, pid: int, patience_s: float) -> bool:
        has_ended = wait_gone([pid], self.data, patience_s)
        if has_ended and self._child is not None:
            self._child.wait()
            self._child = None
        return has_ended
