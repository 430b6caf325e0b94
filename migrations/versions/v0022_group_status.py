"""The state of submissions to groups, for semq_status."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    """Add a function, and use it in the functions for applications."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0022_group_status.sql").read_bytes())
