"""The place of a message in the submission to a group, for events about the message."""

from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    """Add a column that older nodes ignore."""
    op.execute("ALTER TABLE tb_0031 ADD COLUMN group_place TEXT")
