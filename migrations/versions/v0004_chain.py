"""The chain of the ledger: an index on column ``first``, and half-empty pages for heap-only updates."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the index and the storage parameters."""
    op.execute("CREATE UNIQUE INDEX semq_chain_first ON semq_chain (first)")
    op.execute(
        "ALTER TABLE semq_chain SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,"
        " autovacuum_vacuum_threshold = 500)"
    )
