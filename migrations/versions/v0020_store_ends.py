"""The newest state of each store of a hub with several instances, in its control database."""

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    """Add columns that older nodes ignore."""
    for column in ("boot", "chain_place", "chain_count"):
        op.execute(f"ALTER TABLE hub_store ADD COLUMN {column} BIGINT DEFAULT 0 NOT NULL")
