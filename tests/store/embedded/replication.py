"""Two real Postgres servers: a primary, and a standby that replicates it by streaming."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from semq.installation.empty_database import copy_empty_database
from semq.store.embedded.identity import find_identity
from semq.store.embedded.programs import find_programs
from semq.store.embedded.server import EmbeddedPostgres


@dataclass
class ReplicatedServers:
    """A primary and its standby."""

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres

    @property
    def url(self) -> str:
        """The URL of both servers, in the form for the configuration of a node."""
        facts = [conninfo_to_dict(server.url_of("semq", tcp=True)) for server in (self.primary, self.standby)]
        hosts = ",".join(f"127.0.0.1:{server_facts['port']}" for server_facts in facts)
        return f"postgresql://{facts[0]['user']}:{facts[0]['password']}@{hosts}/semq"

    def cut_replication(self) -> None:
        """Stop the receiver of the standby."""
        with psycopg.connect(self.standby.url_of("postgres"), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
        with psycopg.connect(self.primary.url_of("postgres"), autocommit=True) as connection:
            while connection.execute("SELECT pid FROM pg_stat_replication").fetchall():
                connection.execute("SELECT pg_sleep(0.02)")

    def kill_primary(self) -> None:
        pid, postmaster = self.primary.pid, self.primary._child
        assert pid is not None
        assert postmaster is not None
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(pid, signal.SIGKILL)
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        postmaster.wait()

    def promote(self) -> None:
        with psycopg.connect(self.standby.url_of("postgres"), autocommit=True) as connection:
            connection.execute("SELECT pg_promote(true)")


@contextmanager
def replicated(folder: Path, *, synchronous: bool) -> Iterator[ReplicatedServers]:
    """Yield both servers when the standby streams; stop them at the end."""
    primary, standby = EmbeddedPostgres(folder / "one"), EmbeddedPostgres(folder / "other")
    try:
        copy_empty_database(folder / "one")
        primary.start()
        standby.home.mkdir(parents=True)
        _base_backup(primary, standby)
        standby.start()
        with psycopg.connect(primary.url_of("postgres"), autocommit=True) as connection:
            if synchronous:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            wanted = "sync" if synchronous else "async"
            while connection.execute("SELECT sync_state FROM pg_stat_replication").fetchall() != [(wanted,)]:
                connection.execute("SELECT pg_sleep(0.02)")
        yield ReplicatedServers(primary, standby)
    finally:
        for server in (standby, primary):
            server.stop(5.0)


def _base_backup(primary: EmbeddedPostgres, standby: EmbeddedPostgres) -> None:
    programs = find_programs()
    tool = Path(programs.postgres).with_name("pg_basebackup")
    url = primary.url_of("postgres", tcp=True)
    subprocess.run(
        [str(tool), "--dbname", url, "--pgdata", str(standby.data), "--write-recovery-conf", "--checkpoint=fast"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    shutil.copy(primary.home / "password", standby.home / "password")
    identity = find_identity(programs.postgres)
    for path in (standby.home, standby.home / "password", standby.data, *standby.data.rglob("*")):
        identity.give(path)
