"""Tables of the web process: users, sessions, one-time links, tokens and the audit log."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add tables that older nodes ignore."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0015_web.sql").read_bytes())
