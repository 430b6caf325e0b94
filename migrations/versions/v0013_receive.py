"""semq_receive locks only the documents that it can return, not all candidates, because a server has few locks."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Replace the function, and set its search path."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0013_receive.sql").read_bytes())
