"""The first schema: tb_0031, tb_0030, the ledger, the broker's tables, and the functions for applications."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run the SQL files of this revision."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    for name in ("v0001_tables.sql", "v0001_functions.sql"):
        driver.execute(Path(__file__).with_name(name).read_bytes())
