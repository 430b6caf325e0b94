"""Each submission says why it waits, and keeps the names that it had; messages are found by keys through indexes."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Columns without a default and indexes on what never changes; a node of the version before goes on beside them."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0014_waits.sql").read_bytes())
