"""Functions that read headers in the form of AMQP, and refuse numbers that AMQP cannot carry."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0029"
down_revision = "0028"


def upgrade() -> None:
    """Add a function; replace a view and a function, with the same arguments and columns."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0029_encoded_headers.sql").read_bytes())
