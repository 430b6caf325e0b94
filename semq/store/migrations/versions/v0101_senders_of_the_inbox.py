"""The view of the inbox names the sending user: applications that receive by SQL answer to this address."""

revision = "0101"
down_revision = "0100"
# Fingerprint of the functions and views in ``semq.store.sql`` as of this revision.
functions = "3d3d997708f1179971e86cb68964bdb060923bbbd2c47c839b3903031c162720"


def upgrade() -> None:
    """Change no table: with the newest revision, all functions and views get their present texts."""
