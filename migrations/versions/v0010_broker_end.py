"""The broker's last word of a life that ends in order: what it had handed out is marked."""

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """A column that older nodes do not look at."""
    op.execute("ALTER TABLE semq_meta ADD COLUMN broker_ended BOOLEAN DEFAULT false NOT NULL")
