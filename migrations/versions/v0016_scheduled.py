"""Submissions that wait for a time (@NotBefore)."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    """Add columns without a default; replace an index and the functions of SQL.md."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0016_scheduled.sql").read_bytes())
