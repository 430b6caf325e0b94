"""Turns among sources and priority among what waits: both as columns that never change, each with its index."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Nodes of the version before write neither column: what they insert counts as of no source and priority 0."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0011_tracks.sql").read_bytes())
