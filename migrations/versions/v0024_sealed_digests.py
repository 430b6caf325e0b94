"""The digests of sealed documents and pieces, for semq_receive and for the assembly of documents in pieces."""

from pathlib import Path

import psycopg
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    """Replace a view and a function."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(Path(__file__).with_name("v0024_sealed_digests.sql").read_bytes())
