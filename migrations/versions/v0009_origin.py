"""Whether the origin of a received document was proved: for applications, and for what takes a forgery's place."""

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Columns that older nodes do not look at, and one more at the end of the view of the inbox.

    Nobody knows what was proved of the entries that the ledger has, and many documents of those days were handed to an
    application: they count as proved, so that no other document takes their place (MISMATCH, as before this revision).
    A default at the time of adding rewrites no row.
    """
    op.execute("ALTER TABLE tb_0030 ADD COLUMN proved BOOLEAN NOT NULL DEFAULT false")
    op.execute("ALTER TABLE tb_0030_ledger ADD COLUMN proved BOOLEAN NOT NULL DEFAULT true")
    op.execute("ALTER TABLE tb_0030_ledger ALTER COLUMN proved SET DEFAULT false")
    op.get_bind().exec_driver_sql(Path(__file__).with_name("v0009_inbox.sql").read_text("utf-8"))
