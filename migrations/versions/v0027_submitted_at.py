"""The time of acceptance at the sender's node, for receivers by SQL."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    """Append a column to a view."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0027_submitted_at.sql").read_bytes())
