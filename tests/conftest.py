"""Fixtures of all tests: a real Postgres per worker, a fresh database per test, and the profiles of hypothesis.

| fixture            | scope   | what the test gets                                                        |
|--------------------|---------|---------------------------------------------------------------------------|
| `postgres`         | session | the running embedded server of this worker (an EmbeddedPostgres)          |
| `empty_database`   | test    | the URL of a new database without tables                                  |
| `database`         | test    | the URL of a new database at the newest schema                            |
| `new_database`     | test    | a function that makes a database at the newest schema at each call        |
| `inprocess`        | test    | an object that starts nodes in the event loop of the test file            |
| `shared_inprocess` | module  | the object of `inprocess`, for all tests of a file                        |
| `network`          | session | a hub and two institutions as processes (tests/app/network.py)            |
"""

import atexit
import gc
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from semq.installation.empty_database import copy_empty_database
from semq.store.embedded import programs
from semq.store.embedded.cluster import DATABASE
from semq.store.embedded.server import EmbeddedPostgres
from tests import depth
from tests.selection.kinds import DEEP, MARKS, Groups, kind_of, marks_of, rank_of
from tests.selection.turns import ALL, CHOICES, TODAY, TURNS, is_in_turn, turn_of_today
from tests.surroundings import (
    Measuring,
    collect_rarely,
    draw_without_constants,
    keep_bytecode,
    log_in_cheaply,
    search_no_module_for_requests,
    shorten_refusals,
    start_nodes_quickly,
    use_memory,
    uses_memory,
)

if TYPE_CHECKING:  # the import takes long, so only tests that start nodes do it
    from tests.app.network import Network
    from tests.service.inprocess import InProcess

# The profile ``default`` has the same examples in each run; ``search`` and ``deep`` draw new ones.
settings.register_profile("search", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", settings.get_profile("search"), max_examples=2000)
os.environ["LOGNAME"] = "root"  # the command line names no person in the ledger, whoever runs the tests
os.environ.pop("SUDO_USER", None)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")

_numbers = count(1)
_measuring = pytest.StashKey[Measuring]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--quick``, ``--postgres``, ``--rabbitmq-root``, ``--deep`` and ``--turn``."""
    parser.addoption("--quick", action="store_true", help=f"leave out tests that are marked {', '.join(MARKS)}")
    parser.addoption("--postgres", metavar="DIR", help="the Postgres whose programs are in DIR, not that of the wheel")
    parser.addoption(
        "--rabbitmq-root", type=Path, metavar="DIR", help="the RabbitMQ of Debian 13 in DIR, which is installed there"
    )
    parser.addoption("--deep", action="store_true", help=f"more seeds, examples, cycles; also tests marked {DEEP}")
    parser.addoption(
        "--turn", default=ALL, choices=CHOICES, help="which of the long tests: see tests/selection/turns.py"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Prepare the run. Without ``-m``, choose tests by marks."""
    use_memory()
    stack = ExitStack()
    config.add_cleanup(stack.close)
    if folder := config.getoption("postgres"):
        programs.WHEELS, programs.SYSTEM = (), ()
        os.environ["PATH"] = f"{Path(folder).absolute()}:{os.environ['PATH']}"  # processes of tests find it there, too
    start_nodes_quickly(stack)
    keep_bytecode()
    collect_rarely()
    search_no_module_for_requests()
    depth.is_deep = config.getoption("deep") or PROFILE == "deep"
    examples = depth.deeper(50, 100)  # more would add little, because each run has the same ones
    settings.register_profile("default", settings.get_profile("search"), derandomize=True, max_examples=examples)
    settings.load_profile(PROFILE)
    draw_without_constants()
    shorten_refusals()
    config.stash[_measuring] = Measuring(config.getoption("cov_source", None) or ())
    left_out = MARKS if config.getoption("quick") else () if config.getoption("deep") else (DEEP,)
    if not config.option.markexpr:
        config.option.markexpr = " and ".join(f"not {mark}" for mark in left_out)
    if config.option.turn == TODAY:  # here, because workers get the options of this process
        config.option.turn = turn_of_today()


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Measure no coverage of the collection."""
    session.config.stash[_measuring].pause()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip files whose tests a quick run leaves out."""
    file = collection_path.relative_to(config.rootpath).as_posix() if config.getoption("quick") else ""
    return True if file.endswith(".py") and "test_" in file and kind_of(file).marks else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out long tests of other turns, and mark the rest; on a worker, sort them by the rows of ``kinds``."""
    turn = config.option.turn
    config.hook.pytest_deselected(items=[item for item in items if not is_in_turn(item.nodeid, turn)])
    items[:] = [item for item in items if is_in_turn(item.nodeid, turn)]
    for item in items:
        for mark in marks_of(item):
            item.add_marker(mark)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=lambda item: rank_of(item.nodeid))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which turn the run was."""
    if config.option.turn != ALL:
        number = f"{config.option.turn} of {len(TURNS)}"
        terminalreporter.write_line(f"Of the long tests, these are turn {number}; --turn all runs all of them.")


def pytest_collection_finish() -> None:
    """Exclude all present objects from garbage collection: there are millions."""
    gc.freeze()
    atexit.register(gc.unfreeze)  # otherwise duckdb reports leaks


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Measure the coverage of a test if needed."""
    item.config.stash[_measuring].begin(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape captured bytes that are not UTF-8: workers send reports as UTF-8."""
    report = yield
    report.sections = [(name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections]
    return report


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Groups:
    """Return the scheduler that keeps groups together."""
    config.option.loadscopereorder = False
    return Groups(config, log)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    folder = tmp_path_factory.mktemp("pg")
    copy_empty_database(folder)
    # Autovacuum would start a process for each new database.
    with EmbeddedPostgres(folder, overrides={"shared_buffers": "32MB", "autovacuum_naptime": "1d"}) as server:
        # This login makes a cache of the catalogs, to be copied with the database.
        log_in_cheaply(server.url_of(DATABASE))
        yield server
        _admin_connection(server.url_of("postgres")).close()


@pytest.fixture
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    with new_database_of(postgres, template="template0") as url:
        yield url


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[str]:
    with new_database_of(postgres, template=DATABASE) as url:
        yield url


@pytest.fixture
def new_database(postgres: EmbeddedPostgres) -> Iterator[Callable[[], str]]:
    with _new_databases_of(postgres) as make:
        yield make


@pytest.fixture
async def inprocess(tmp_path: Path, new_database: Callable[[], str]) -> AsyncIterator["InProcess"]:
    from tests.service.inprocess import in_process

    async with in_process(tmp_path, new_database) as nodes:
        yield nodes


@pytest.fixture(scope="module")
async def shared_inprocess(
    tmp_path_factory: pytest.TempPathFactory, postgres: EmbeddedPostgres
) -> AsyncIterator["InProcess"]:
    from tests.service.inprocess import in_process

    with _new_databases_of(postgres) as make:
        async with in_process(tmp_path_factory.mktemp("shared"), make) as nodes:
            yield nodes


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Network"]:
    from tests.app.network import running

    with running(tmp_path_factory.mktemp("nodes")) as started:
        yield started


@contextmanager
def _new_databases_of(postgres: EmbeddedPostgres) -> Iterator[Callable[[], str]]:
    """Yield a function that makes databases; drop them at the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(new_database_of(postgres, template=DATABASE))


@contextmanager
def new_database_of(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    """Yield the URL of a copy of a database."""
    name = f"test_{next(_numbers)}"
    query = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY {}")
    # FILE_COPY takes half the processor time, but waits for the disk twice.
    strategy = sql.SQL("FILE_COPY" if uses_memory() else "WAL_LOG")
    _execute_as_admin(postgres, query.format(sql.Identifier(name), sql.Identifier(template), strategy))
    try:
        yield postgres.url_of(name)
    finally:
        # FORCE, because a failed test may have left connections.
        _execute_as_admin(postgres, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _execute_as_admin(postgres: EmbeddedPostgres, statement: sql.SQL | sql.Composed) -> None:
    _admin_connection(postgres.url_of("postgres")).execute(statement)


@cache
def _admin_connection(url: str) -> psycopg.Connection[Any]:
    return psycopg.connect(url, autocommit=True)
