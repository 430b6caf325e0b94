"""The tables of version 1.0."""

from pathlib import Path

from semq.store.postgres.migration import run

revision = "0100"
down_revision = None
# Fingerprint of the functions and views in ``semq.store.sql`` as of this revision.
functions = "42ada73cbc7dec87"


def upgrade() -> None:
    """Create the tables."""
    run(Path(__file__).with_name("v0100_baseline.sql").read_text("utf-8"))
