"""Documents in pieces for receivers by SQL."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    """Replace a view and two functions, and add three."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0019_receive_pieces.sql").read_bytes())
