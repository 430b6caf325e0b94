"""A column that says whether the broker has ended in order."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add a column that older nodes ignore."""
    op.execute("ALTER TABLE semq_meta ADD COLUMN broker_ended BOOLEAN DEFAULT false NOT NULL")
