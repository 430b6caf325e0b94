"""Version of the tables in a database, compared with the revisions in the package ``migrations``.

Every node asks at each start, and usually finds the newest one: nothing here imports Alembic or SQLAlchemy, whose start
costs more than the question. ``migration`` upgrades, and is imported only for that.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import psycopg

import migrations
from semq.store.postgres.errors import SchemaTooNew, SchemaTooOld, StoreUnavailable

VERSION_TABLE = "semq_version"  # not Alembic's default: an application with Alembic may use the same database


@cache
def known() -> Sequence[str]:
    """Return the revisions of this version of SEMQ, the newest last: the numbers in the names of their files."""
    files = (Path(migrations.__file__).parent / "versions").glob("v[0-9]*_*.py")
    return sorted(file.name[1:].partition("_")[0] for file in files)


def head() -> str:
    """Return the revision that this version of SEMQ requires."""
    return known()[-1]


def current(url: str) -> str | None:
    """Return the revision of the tables in the database, or None without tables. Raises StoreUnavailable."""
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            (found,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (VERSION_TABLE,)).fetchone() or (False,)
            row = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}".encode()).fetchone() if found else None
    except psycopg.OperationalError as error:
        raise StoreUnavailable(fault=str(error).strip()) from error
    return row[0] if row else None


def check(url: str) -> None:
    """Check that the tables are exactly those of this version. Raises SchemaTooOld, SchemaTooNew, StoreUnavailable."""
    found = current(url)
    refuse_newer(found)
    if found != head():
        raise SchemaTooOld(found=found or "none", needed=head())


def refuse_newer(found: str | None) -> None:
    """Raise SchemaTooNew if this version of SEMQ does not know the revision."""
    if found is not None and found not in known():
        raise SchemaTooNew(found=found, needed=head())
