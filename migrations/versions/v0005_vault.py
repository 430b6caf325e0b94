"""A node may keep bodies encrypted at rest: by this value it knows the master key that was in use."""

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """A column that older nodes do not look at."""
    op.execute("ALTER TABLE semq_meta ADD COLUMN vault BYTEA")
