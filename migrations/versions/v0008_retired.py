"""Stores of the hub that an operator has declared permanently lost."""

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create a table that older nodes ignore."""
    op.execute("""
        CREATE TABLE semq_retired_store (
            semq_id INTEGER NOT NULL,
            semq_db_id INTEGER NOT NULL,
            retired_by TEXT NOT NULL,
            why TEXT NOT NULL,
            at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
            CONSTRAINT semq_retired_store_pkey PRIMARY KEY (semq_id, semq_db_id)
        )""")
