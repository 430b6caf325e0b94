"""Functions that check their caller and seldom notify; no advisory locks for other roles; identities of ledger rows."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    """Replace functions, with the same arguments, and change rights."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0030_rights.sql").read_bytes())
