"""Columns ``source`` and ``priority``, with indexes: sources take turns, and higher priorities go first."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the columns and fill ``source``; replace tb_0030_user by an index on the new columns, add such an index to
    tb_0031, and replace semq_receive.

    A node of the previous version writes rows with an empty source; ``semq.store.postgres.recovery`` sets it later.
    """
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0011_tracks.sql").read_bytes())
