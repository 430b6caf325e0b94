"""Documents in pieces as semq_inbox and semq_status show them."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    """Replace a view and a function."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0023_pieces_in_views.sql").read_bytes())
