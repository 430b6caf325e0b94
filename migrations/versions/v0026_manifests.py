"""The name of the document in pieces, in the row of its manifest, so that a refused manifest is recognised."""

from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    """Add a column that older nodes ignore."""
    op.execute("ALTER TABLE tb_0031 ADD COLUMN document TEXT")
