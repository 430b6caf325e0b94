"""Tables of the hub: certificates, enrolment tokens, stores of nodes, definitions."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run the SQL file of this revision."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0002_identity.sql").read_bytes())
