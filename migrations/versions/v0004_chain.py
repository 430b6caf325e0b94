"""The chain of the ledger grows in place: a link by its first line, on half-empty pages. Empty until now."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Nothing wrote to the table before this revision."""
    op.execute("CREATE UNIQUE INDEX semq_chain_first ON semq_chain (first)")
    op.execute(
        "ALTER TABLE semq_chain SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,"
        " autovacuum_vacuum_threshold = 500)"
    )
