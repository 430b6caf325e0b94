"""What the receiver remembers of a message of class 1 or 2: also that it was refused, and why."""

from alembic import op

revision = "0012"
down_revision = "0011"

# A refused message had a second row, whose ident ended with this.
MARK = " REJ"


def upgrade() -> None:
    """Columns with defaults, and one row for the two of a refused message, whose reason nobody kept."""
    op.execute(f"""
        ALTER TABLE tb_0030_seen
            ADD COLUMN status SMALLINT DEFAULT 410 NOT NULL,
            ADD COLUMN reason_code TEXT,
            ADD COLUMN reason_text TEXT,
            ADD CONSTRAINT known_status CHECK (status IN (410, 420, 430)),
            ADD CONSTRAINT whole_reason CHECK ((reason_code IS NULL) = (reason_text IS NULL));
        UPDATE tb_0030_seen s SET status = 420
            WHERE EXISTS (SELECT FROM tb_0030_seen m WHERE m.ident = s.ident || '{MARK}');
        DELETE FROM tb_0030_seen WHERE ident LIKE '%{MARK}'
    """)
