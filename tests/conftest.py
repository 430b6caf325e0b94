"""What all tests share: a real Postgres per worker, a fresh database per test, and how hypothesis searches.

| fixture          | scope   | what the test gets                                                              |
|------------------|---------|---------------------------------------------------------------------------------|
| `postgres`       | session | the running embedded server of this worker (an EmbeddedPostgres)                |
| `empty_database` | test    | the URL of a new database without tables                                        |
| `database`       | test    | the URL of a new database at the newest schema, copied from a migrated template |
| `new_database`   | test    | makes as many of these as the test asks for                                     |
| `inprocess`      | test    | starts nodes in the test's own event loop (tests/service/inprocess.py)          |
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from semq.store.embedded.server import EmbeddedPostgres
from tests.service.inprocess import InProcess, in_process

# No test asserts a duration, so none has a deadline. A failure prints the blob that replays it. A commit is judged by
# the same examples everywhere; to search for others is a run of its own, which draws new ones each time.
settings.register_profile("search", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", settings.get_profile("search"), max_examples=2000)
settings.register_profile("default", settings.get_profile("search"), derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path_factory.mktemp("pg"), overrides={"shared_buffers": "32MB"}) as server:
        yield server


@pytest.fixture
def empty_database(postgres: EmbeddedPostgres) -> Iterator[str]:
    with _new_database(postgres, template="template0") as url:
        yield url


@pytest.fixture
def database(postgres: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    with _new_database(postgres, template=migrated_template) as url:
        yield url


@pytest.fixture
def new_database(postgres: EmbeddedPostgres, migrated_template: str) -> Iterator[Callable[[], str]]:
    """Makes as many migrated databases as a test asks for."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(_new_database(postgres, template=migrated_template))


@pytest.fixture
async def inprocess(tmp_path: Path, new_database: Callable[[], str]) -> AsyncIterator[InProcess]:
    async with in_process(tmp_path, new_database) as nodes:
        yield nodes


@pytest.fixture(scope="session")
def migrated_template(postgres: EmbeddedPostgres) -> str:
    """The name of a database that the migrations have been run on once."""
    from semq.store.postgres.migration import upgrade

    _admin(postgres, sql.SQL("CREATE DATABASE migrated TEMPLATE template0"))
    upgrade(postgres.url_of("migrated"))
    return "migrated"


@contextmanager
def _new_database(postgres: EmbeddedPostgres, template: str) -> Iterator[str]:
    name = f"test_{next(_numbers)}"
    _admin(postgres, sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)))
    try:
        yield postgres.url_of(name)
    finally:
        # Forced: a test that failed half way may have left connections behind.
        _admin(postgres, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _admin(postgres: EmbeddedPostgres, statement: sql.SQL | sql.Composed) -> None:
    with psycopg.connect(postgres.url_of("postgres"), autocommit=True) as connection:
        connection.execute(statement)
