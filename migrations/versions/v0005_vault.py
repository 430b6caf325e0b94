"""Encryption of bodies at rest: a value by which a node recognises the master key in use."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add a column that older nodes ignore."""
    op.execute("ALTER TABLE semq_meta ADD COLUMN vault BYTEA")
