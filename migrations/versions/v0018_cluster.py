"""Identity, stores, homes and instances of a hub with several instances."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    """Add tables that older nodes ignore."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0018_cluster.sql").read_bytes())
