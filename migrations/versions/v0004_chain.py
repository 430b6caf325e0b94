"""The chain of the ledger: links identified by their first line, on half-empty pages. The table was empty before."""

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Recreate the table; nothing was written to it before this revision."""
    op.execute("CREATE UNIQUE INDEX semq_chain_first ON semq_chain (first)")
    op.execute(
        "ALTER TABLE semq_chain SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,"
        " autovacuum_vacuum_threshold = 500)"
    )
