"""What the receiver remembers of a message of class 1 or 2: also that it was refused, and why.

The second row that older nodes keep of a refused message becomes the status of the first in
``semq.store.postgres.recovery``, at each start: an older node may go on to write such rows beside this schema.
"""

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add columns with defaults that match the rows of older nodes."""
    op.execute("""
        ALTER TABLE tb_0030_seen
            ADD COLUMN status SMALLINT DEFAULT 410 NOT NULL,
            ADD COLUMN reason_code TEXT,
            ADD COLUMN reason_text TEXT,
            ADD CONSTRAINT known_status CHECK (status IN (410, 420, 430)),
            ADD CONSTRAINT whole_reason CHECK ((reason_code IS NULL) = (reason_text IS NULL))
    """)
