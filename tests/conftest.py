"""What all tests share: a real Postgres per worker, a fresh database per test, and how hypothesis searches.

| fixture          | scope   | what the test gets                                                              |
|------------------|---------|---------------------------------------------------------------------------------|
| `postgres`       | session | the running embedded server of this worker (an EmbeddedPostgres)                |
| `empty_database` | test    | the URL of a new database without tables                                        |
| `database`       | test    | the URL of a new database at the newest schema, copied from a migrated template |
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import sql

from semq.store.embedded import EmbeddedPostgres

# No test asserts a duration, so none has a deadline. A failure prints the blob that replays it.
settings.register_profile("default", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("deep", settings.get_profile("default"), max_examples=2000)
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


@pytest.fixture(scope="session")
def migrated_template(postgres: EmbeddedPostgres) -> str:
    """The name of a database that the migrations have been run on once."""
    from semq.store.migrate import upgrade

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
