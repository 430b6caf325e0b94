"""The tables of version 1.0."""

from pathlib import Path

from semq.store.postgres.migration import run

revision = "0100"
down_revision = None
# Fingerprint of the functions and views in ``semq.store.sql`` as of this revision.
functions = "d0590d3793b90a5be2832be915adf2ff1b7ecf6a0671e3c67fe7bb8290eb859e"


def upgrade() -> None:
    """Create the tables."""
    run(Path(__file__).with_name("v0100_baseline.sql").read_text("utf-8"))
