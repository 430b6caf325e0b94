"""The tables of version 1.0."""

from pathlib import Path

from semq.store.postgres.migration import run

revision = "0100"
down_revision = None
# Fingerprint of the functions and views in ``semq.store.sql`` as of this revision.
functions = "ab43a8b81b772714acb6f0a58ad5953e3bd32be84b4173a17c3db04c7a8fda0c"


def upgrade() -> None:
    """Create the tables."""
    run(Path(__file__).with_name("v0100_baseline.sql").read_text("utf-8"))
