"""Surroundings that make a test run fast and repeatable.

Most temporary files are databases, whose servers run with ``fsync`` on. On a disk, each test would wait for hundreds of
durable writes.
"""

import gc
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import walk_packages

import psycopg
from coverage import Coverage
from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants
from psycopg import sql

from semq.installation.empty_database import FOLDER_VARIABLE
from semq.installation.process import NodeProcess
from semq.transport import listener
from tests.prepared.client import SOCKET, PreparedProcess, start_server

MEMORY = Path("/dev/shm")  # a file system in memory
FREE_BYTES_MIN = 6 << 30  # for a test run
GC_THRESHOLDS = (100_000, 50, 100)
# Package whose own tests reach all of its branches | folder of these tests
COVERED_BY_OWN_TESTS = {"semq/umx_t": "tests/umx_t/", "semq/amqp": "tests/amqp/", "semq/seal": "tests/seal/"}


def use_memory() -> None:
    """Put temporary files into memory, also for children, if TMPDIR is not set and memory suffices."""
    if "TMPDIR" not in os.environ and _has_space():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def start_nodes_quickly(stack: ExitStack) -> None:
    """Let this process and its workers start nodes with ``tests.prepared`` and copies of one empty database."""
    if FOLDER_VARIABLE not in os.environ:
        os.environ[FOLDER_VARIABLE] = stack.enter_context(tempfile.TemporaryDirectory(prefix="semq-empty-"))
    if SOCKET not in os.environ:
        start_server(stack)
    NodeProcess.popen = PreparedProcess  # type: ignore[assignment]


def uses_memory() -> bool:
    return Path(tempfile.gettempdir()).is_relative_to(MEMORY)


def _has_space() -> bool:
    try:
        file_system = os.statvfs(MEMORY)
        available = Path("/proc/meminfo").read_text().partition("MemAvailable:")[2].split()[0]
    except (OSError, IndexError):
        return False
    # Some tests run programs from temporary files.
    is_usable = os.access(MEMORY, os.W_OK) and not file_system.f_flag & os.ST_NOEXEC
    return is_usable and min(file_system.f_bavail * file_system.f_frsize, int(available) * 1024) > FREE_BYTES_MIN


def keep_bytecode() -> None:
    """Let this process and its children write bytecode: the rewriting of assertions takes longer than many tests."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False


def log_in_cheaply(url: str) -> None:
    """Hash the password of the role in ``url`` in one round, not in 4,096 for each connection (from Postgres 16 on)."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.info.server_version >= 160_000:
            connection.execute("SET scram_iterations = 1")
            query = sql.SQL("ALTER ROLE {} PASSWORD {}")
            connection.execute(query.format(sql.Identifier(connection.info.user), connection.info.password))


def shorten_refusals() -> None:
    """Shorten the pause after a refused login in this process."""
    listener.PAUSE_S = 0.05


def search_no_module_for_requests() -> None:
    """Let httpcore find at once that ``sniffio`` is missing; else each request searches all package folders."""
    if find_spec("sniffio") is None:
        sys.modules["sniffio"] = None  # type: ignore[assignment]


def collect_rarely() -> None:
    """Collect garbage rarely: it took a fifth of the time of a worker."""
    gc.set_threshold(*GC_THRESHOLDS)


def draw_without_constants() -> None:
    """Let hypothesis draw no constants from sources if each run has the same examples (``derandomize``).

    The constants come from all imported modules, so the examples of a test would depend on earlier tests.
    """
    if settings.default is not None and settings.default.derandomize:
        nothing = Constants()
        providers._get_local_constants = lambda: nothing


class Measuring:
    """The measurement of coverage. The packages in COVERED_BY_OWN_TESTS are measured during their own tests only.

    Without measurement, tests run up to two and a half times as fast.
    """

    def __init__(self, sources: Iterable[str | bool]) -> None:
        """``sources``: packages to measure. If there are none, or one is not in
        COVERED_BY_OWN_TESTS, all tests are measured."""
        folders = [COVERED_BY_OWN_TESTS.get(str(source)) for source in sources]
        self._folders = tuple(folder for folder in folders if folder is not None)
        self._is_limited = bool(folders) and None not in folders
        self._is_on = True
        self._coverage: Coverage | None = None

    def pause(self) -> None:
        """If the measurement is limited, import the packages, to measure lines at module level; then stop."""
        for package in COVERED_BY_OWN_TESTS if self._is_limited else ():
            name = package.replace("/", ".")
            for module in walk_packages(import_module(name).__path__, f"{name}."):
                import_module(module.name)
        self.begin("")

    def begin(self, test_id: str) -> None:
        """Start or stop measuring for the test that begins."""
        if self._is_limited and self._coverage is None:
            self._coverage = Coverage.current()  # a stopped Coverage is not the current one
        if self._coverage is None or self._is_on == test_id.startswith(self._folders):
            return
        self._is_on = not self._is_on
        (self._coverage.start if self._is_on else self._coverage.stop)()
