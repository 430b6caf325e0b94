"""The pieces of documents that are too large for one message."""

from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    """Add a table that older nodes ignore."""
    op.execute(
        """
        CREATE TABLE tb_0031_piece (
            document BIGINT NOT NULL, number INTEGER NOT NULL, payload BYTEA NOT NULL, PRIMARY KEY (document, number)
        ) WITH (
            autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
            autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1,
            autovacuum_analyze_threshold = 2000
        )"""
    )
    op.execute("ALTER TABLE tb_0031_piece ALTER COLUMN payload SET STORAGE EXTERNAL")  # as other payloads
