"""The tables of version 1.0."""

from pathlib import Path

from semq.store.postgres.migration import run

revision = "0100"
down_revision = None
# Fingerprint of the functions and views in ``semq.store.sql`` as of this revision.
functions = "3d3d997708f1179971e86cb68964bdb060923bbbd2c47c839b3903031c162720"


def upgrade() -> None:
    """Create the tables."""
    run(Path(__file__).with_name("v0100_baseline.sql").read_text("utf-8"))
