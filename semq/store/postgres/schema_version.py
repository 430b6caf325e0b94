"""Version of the tables in a database, compared with the revisions in the package ``semq.store.migrations``.

Every node compares the versions at its start. So this module imports neither Alembic nor SQLAlchemy, whose import takes
longer than the comparison.
"""

from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path

import psycopg

import semq.store.sql
from semq.store import migrations
from semq.store.postgres.errors import SchemaBeforeRelease, SchemaTooNew, SchemaTooOld, StoreUnavailable

VERSION_TABLE = "semq_version"  # not Alembic's default: an application with Alembic may use the same database
IS_THERE = f"SELECT to_regclass('{VERSION_TABLE}') IS NOT NULL".encode()
REVISION = f"SELECT version_num FROM {VERSION_TABLE}".encode()


@cache
def known() -> Sequence[str]:
    """Return the revisions of this version of SEMQ, the newest last."""
    files = (Path(migrations.__file__).parent / "versions").glob("v[0-9]*_*.py")
    return sorted(file.name[1:].partition("_")[0] for file in files)


def head() -> str:
    """Return the revision that this version of SEMQ requires."""
    return known()[-1]


@cache
def fingerprint() -> str:
    """Return a short hash of the revisions and of the functions."""
    folders = Path(migrations.__file__).parent / "versions", Path(semq.store.sql.__file__).parent
    files = sorted(file for folder in folders for file in folder.iterdir() if file.suffix in (".py", ".sql"))
    return sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def current(url: str) -> str | None:
    """Return the revision of the tables; None if the database has no tables. Raises StoreUnavailable."""
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            return revision_of(connection)
    except psycopg.OperationalError as error:
        raise StoreUnavailable(fault=str(error).strip()) from error


def revision_of(connection: psycopg.Connection) -> str | None:
    """Return the revision of the tables; None if the database has no tables."""
    if connection.execute(IS_THERE).fetchone() != (True,):
        return None
    row = connection.execute(REVISION).fetchone()
    return row[0] if row else None


async def check_on(connection: psycopg.AsyncConnection) -> None:
    """Check the tables as ``check`` does, on an open connection."""
    is_there = await (await connection.execute(IS_THERE)).fetchone() == (True,)
    row = await (await connection.execute(REVISION)).fetchone() if is_there else None
    refuse_other(row[0] if row else None)


def check(url: str) -> None:
    """Check that the tables are those of this version. Raises as ``refuse_other``, and StoreUnavailable."""
    refuse_other(current(url))


def refuse_other(revision: str | None) -> None:
    """Raise SchemaTooNew, SchemaTooOld or SchemaBeforeRelease for a revision other than ``head``."""
    refuse_unknown(revision)
    if revision != head():
        raise SchemaTooOld(found=revision or "none", needed=head())


def refuse_unknown(revision: str | None) -> None:
    """Raise SchemaTooNew or SchemaBeforeRelease for a revision that this version does not have."""
    if revision is not None and revision not in known():
        refusal = SchemaBeforeRelease if revision < known()[0] else SchemaTooNew
        raise refusal(found=revision, needed=head())
