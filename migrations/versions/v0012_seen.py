"""Status and reason in the receiver's entries of messages of class 1 or 2, so that an entry may also record a refusal.

An older node writes a second row for a refused message, also to this schema. At each start,
``semq.store.postgres.recovery`` deletes these rows and sets the status of the first row instead.
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
