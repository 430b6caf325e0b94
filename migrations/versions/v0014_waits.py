"""Reasons why a submission waits, its earlier LK0s, and indexes that find messages by key."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add columns without a default, a table, and indexes on columns that never change; replace two functions."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0014_waits.sql").read_bytes())
