"""Documents through SQL: refused submissions stay as rows, outcomes can be queried, and documents can be set aside."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Run the SQL files of this revision."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    for name in ("v0007_tables.sql", "v0007_functions.sql"):
        driver.execute(Path(__file__).with_name(name).read_bytes())
