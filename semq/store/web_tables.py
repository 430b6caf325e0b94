"""Tables of the web process: users, sessions, one-time links, tokens, and the audit log. No message depends on them.

Of passwords, sessions, links and tokens, only hashes are stored.
"""

from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, Identity, Index, LargeBinary, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from semq.store.tables import col, metadata, moment

web_account = Table(
    "web_account",
    metadata,
    col("name", Text, key=True),
    col("password", Text, null=True),  # hash (semq.service.credentials.passwords); NULL: the node checks the password
    col("roles", ARRAY(Text)),
    moment("made_at"),
    col("made_by", Text),
    moment("disabled_at", null=True),
)
web_session = Table(
    "web_session",
    metadata,
    col("hash", LargeBinary, key=True),  # SHA-256 of the cookie
    col("account", Text),
    col("roles", ARRAY(Text), null=True),  # from a one-time link or an OpenID provider; NULL: the roles of the account
    moment("made_at"),
    moment("seen_at"),
    moment("ends_at"),
    col("peer", Text, "''"),
    Index("web_session_account", "account"),
    Index("web_session_ends_at", "ends_at"),
)
web_link = Table(
    "web_link",
    metadata,
    col("hash", LargeBinary, key=True),
    moment("made_at"),
    moment("expires_at"),
    moment("used_at", null=True),
)
web_token = Table(
    "web_token",
    metadata,
    col("id", Text, key=True),
    col("hash", LargeBinary),
    col("name", Text),
    col("scopes", ARRAY(Text)),
    col("inbox", Text, null=True),  # the user whose inbox it may read; NULL: any
    moment("made_at"),
    col("made_by", Text),
    moment("expires_at", null=True),
    moment("revoked_at", null=True),
    col("revoked_by", Text, null=True),
    Index("web_token_hash", "hash", unique=True),
    CheckConstraint("(revoked_at IS NULL) = (revoked_by IS NULL)", name="whole_revocation"),
)
# Append-only, by a trigger
web_audit = Table(
    "web_audit",
    metadata,
    Column("number", BigInteger, Identity(always=True), primary_key=True),
    moment("at"),
    col("who", Text),
    col("via", Text),
    col("peer", Text, "''"),
    col("act", Text),
    col("arguments", JSONB, "'{}'"),
    col("outcome", Text),
    col("detail", Text, "''"),
    col("asked", BigInteger, null=True),  # number of the line that was written before the act
    col("read_payload", Boolean, "false"),
    Index("web_audit_at", "at"),
    Index("web_audit_who", "who", "number"),
    CheckConstraint("outcome IN ('asked', 'done', 'refused', 'failed')", name="known_outcome"),
)
