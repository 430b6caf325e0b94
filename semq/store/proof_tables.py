"""The second page of the schema: what secrecy and proof need beside the queues. Few rows, written by few units.

Joined to ``tables.metadata``; read by ``views.messages`` and the operations that prove, written by ``postgres.changes``
and the writer.
"""

from sqlalchemy import BigInteger, CheckConstraint, Date, Index, LargeBinary, Table, Text
from sqlalchemy.dialects.postgresql import ARRAY

from semq.store.tables import col, metadata, moment

# What the directory last said of each node's certificates: all that are not revoked, the active one first.
semq_certificate = Table(
    "semq_certificate",
    metadata,
    col("node", Text, key=True),
    col("pems", ARRAY(Text)),
    moment("seen_at", "now()"),
)
# Session keys of ours, wrapped for ourselves: to be wrapped again, and to show the salt of one digest.
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
# What partners signed: one signature over the hashes of many statements.
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
# The chain of the ledger: a link for so many lines of a day; the newest grows in place, so no index is on what grows.
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
