"""The version of the tables is read as Alembic reads it, and other versions are refused."""

import subprocess
import sys
from typing import Any

import psycopg
import pytest
from alembic.script import ScriptDirectory

from semq.store.postgres import migration, schema_version
from semq.store.postgres.errors import SchemaBeforeRelease, SchemaTooNew, SchemaTooOld, StoreUnavailable
from semq.store.postgres.schema_version import VERSION_TABLE, head


def test_the_revisions_are_those_of_alembic_in_its_order() -> None:
    walked = ScriptDirectory.from_config(migration._config()).walk_revisions()
    assert [script.revision for script in walked][::-1] == list(schema_version.known())


def test_the_tables_of_this_version_are_accepted(database: str) -> None:
    assert schema_version.current(database) == head()
    schema_version.check(database)


def test_a_database_without_tables_is_refused(empty_database: str) -> None:
    assert schema_version.current(empty_database) is None
    with pytest.raises(SchemaTooOld) as caught:
        schema_version.check(empty_database)
    assert caught.value.facts == {"found": "none", "needed": head()}


@pytest.mark.parametrize(("version", "refusal"), [("9999", SchemaTooNew), ("0030", SchemaBeforeRelease)])
def test_another_version_is_refused(database: str, version: str, refusal: type[Exception]) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '{version}'".encode())
    with pytest.raises(refusal):
        schema_version.check(database)


def test_an_unavailable_database_is_reported(postgres: Any) -> None:
    with pytest.raises(StoreUnavailable):
        schema_version.check(postgres.url_of("no_such_database"))


def test_a_node_imports_alembic_only_to_upgrade() -> None:
    program = "import sys, local_node.node, platform_node.node; print('alembic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
