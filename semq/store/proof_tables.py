"""The second part of the schema: tables for secrecy and proof, all in ``tables.metadata``."""

from sqlalchemy import BigInteger, CheckConstraint, Date, Index, LargeBinary, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY

from semq.store.tables import col, metadata, moment

# The certificates of each node as last learned: all except the revoked ones, the active one first.
semq_certificate = Table(
    "semq_certificate",
    metadata,
    col("node", Text, key=True),
    col("pems", ARRAY(Text)),
    moment("seen_at", "now()"),
)
# Session keys of this node, wrapped for the node itself, so that the node can wrap a key again for another certificate
# of the peer, and reveal the salt of a digest.
semq_session_key = Table(
    "semq_session_key",
    metadata,
    col("id", LargeBinary, key=True),
    col("peer", Text),
    col("key_id", Text),
    col("alg", Text),
    col("kept", Text),
    moment("made_at", "now()"),
    Index("semq_session_key_peer", "peer", "made_at"),
)
# Signatures of partners, each over the hashes of many statements.
semq_receipts = Table(
    "semq_receipts",
    metadata,
    col("number", BigInteger, key=True),
    col("source", Text),
    col("signature", Text),
    col("leaves", LargeBinary),
    moment("at", "now()"),
    Index("semq_receipts_at", "at"),
)
# The chain of hashes over the ledger: one row for at most ``LINES_MAX`` (``semq.seal.chain``) ledger lines of one day.
# The newest row is updated in place, so no changing column has an index.
semq_chain = Table(
    "semq_chain",
    metadata,
    col("day", Date, key=True),
    col("place", BigInteger, key=True),
    col("first", BigInteger),
    col("last", BigInteger),
    col("count", BigInteger),
    col("before", LargeBinary),
    col("hash", LargeBinary),
    Index("semq_chain_first", "first", unique=True),
    CheckConstraint("place >= 1 AND count >= 1 AND last >= first", name="counts_up"),
)
