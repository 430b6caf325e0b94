"""The proof of a received document's origin: applications see it, and a proved document replaces a forgery."""

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add columns that older nodes ignore, and a column at the end of the view of the inbox.

    Existing entries of the receiver's ledger count as proved, so that no other document replaces them: many of these
    documents have been given to applications. Postgres rewrites no row for a default in ADD COLUMN.
    """
    op.execute("ALTER TABLE tb_0030 ADD COLUMN proved BOOLEAN NOT NULL DEFAULT false")
    op.execute("ALTER TABLE tb_0030_ledger ADD COLUMN proved BOOLEAN NOT NULL DEFAULT true")
    op.execute("ALTER TABLE tb_0030_ledger ALTER COLUMN proved SET DEFAULT false")
    op.get_bind().exec_driver_sql(Path(__file__).with_name("v0009_inbox.sql").read_text("utf-8"))
