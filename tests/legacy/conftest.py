"""A server of MariaDB for tests of imports; these tests are left out if MariaDB or its driver is not installed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, text

from tests.waiting import until_sync

SERVER = shutil.which("mariadbd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
MISSING = [
    *([] if SERVER else ["mariadbd (Debian: apt-get install mariadb-server-core)"]),
    *([] if find_spec("pymysql") else ["pymysql (./run python -m pip install pymysql)"]),
]
OPTIONS = (
    "--no-defaults", "--skip-grant-tables", "--skip-networking", "--skip-log-bin", "--innodb-buffer-pool-size=16M",
    "--max-allowed-packet=64M", "--innodb-log-file-size=16M",
)  # fmt: skip


def pytest_report_header() -> list[str]:
    """Report the missing packages."""
    return [f"legacy: imports from MariaDB are left out, there is no {' and no '.join(MISSING)}"] if MISSING else []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests with ``mariadb`` in their names or parameters, if MariaDB or its driver is missing."""
    if MISSING:
        items[:] = [item for item in items if "mariadb" not in item.name]


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[str]:
    """Yield the socket of a server without passwords."""
    with TemporaryDirectory(prefix="semq-maria-") as folder:  # a path of a socket has at most 107 bytes
        socket, log = Path(folder) / "socket", Path(folder) / "log"
        owner = ("--user=root",) if os.geteuid() == 0 else ()
        command = [str(SERVER), *OPTIONS, *owner, f"--datadir={folder}", f"--socket={socket}"]
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
            try:
                until_sync(lambda: socket.is_socket() or server.poll() is not None)
                assert server.poll() is None, log.read_text()
                yield str(socket)
            finally:
                server.kill()


@pytest.fixture
def mariadb(mariadb_server: str) -> Iterator[str]:
    name = f"semq_{uuid4().hex}"
    engine = create_engine(f"mysql+pymysql://root@localhost/?unix_socket={mariadb_server}")
    with engine.begin() as connection:
        connection.execute(text(f"CREATE DATABASE {name} CHARACTER SET utf8mb4"))
    yield f"mysql://root@localhost/{name}?unix_socket={mariadb_server}"
    with engine.begin() as connection:
        connection.execute(text(f"DROP DATABASE {name}"))
    engine.dispose()
