"""Search for messages by the record id in their LK0, which short names contain."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create two indexes on columns that never change, so that updates remain heap-only."""
    op.execute("CREATE INDEX tb_0030_source ON tb_0030 (src_object_id)")
    op.execute(
        "CREATE INDEX semq_ledger_record ON semq_ledger ((split_part(lk0, '.', 6)))"
        " WHERE event IN (1, 20) OR side = 2 AND event IN (3, 4, 10, 16)"
    )
