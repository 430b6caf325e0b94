"""Turns among sources, and priorities: columns that never change, each with an index."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the columns. Nodes of the previous version leave them out: their rows have no source and priority 0."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0011_tracks.sql").read_bytes())
