"""Identity: certificates, enrolment tokens, lives of nodes, definitions. New tables only: older nodes do not look."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run the SQL file beside this one."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0002_identity.sql").read_bytes())
