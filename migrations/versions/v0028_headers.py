"""Functions that headers and manifests of a sender neither stop nor delay, and a limit of headers submitted by SQL."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    """Replace functions and a view, with the same arguments and columns."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0028_headers.sql").read_bytes())
