"""The state of messages that were sealed again, for semq_status."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    """Add a function and replace another one."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0025_continued_status.sql").read_bytes())
