"""The tables of version 1.0."""

from pathlib import Path

from semq.store.postgres.migration import run

revision = "0100"
down_revision = None
# Fingerprint of the functions and views in ``semq.store.sql`` as of this revision.
functions = "e82a80c588f7eb22bd81aabe2fa0a57595d53c5b3a71ed745215985ed0383473"


def upgrade() -> None:
    """Create the tables."""
    run(Path(__file__).with_name("v0100_baseline.sql").read_text("utf-8"))
