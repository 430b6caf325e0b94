"""Tables for secrecy and proof: certificates, session keys, receipts, the chain of the ledger."""

from alembic import op

revision = "0003"
down_revision = "0002"

STATEMENTS = """
CREATE TABLE semq_certificate (
    node TEXT NOT NULL,
    pems TEXT[] NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT semq_certificate_pkey PRIMARY KEY (node)
);
CREATE TABLE semq_session_key (
    id BYTEA NOT NULL,
    peer TEXT NOT NULL,
    key_id TEXT NOT NULL,
    alg TEXT NOT NULL,
    kept TEXT NOT NULL,
    made_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT semq_session_key_pkey PRIMARY KEY (id)
);
CREATE INDEX semq_session_key_peer ON semq_session_key (peer, made_at);
CREATE TABLE semq_receipts (
    number BIGINT NOT NULL,
    source TEXT NOT NULL,
    signature TEXT NOT NULL,
    leaves BYTEA NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT semq_receipts_pkey PRIMARY KEY (number)
);
CREATE INDEX semq_receipts_at ON semq_receipts (at);
CREATE TABLE semq_chain (
    day DATE NOT NULL,
    place BIGINT NOT NULL,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    count BIGINT NOT NULL,
    before BYTEA NOT NULL,
    hash BYTEA NOT NULL,
    CONSTRAINT semq_chain_pkey PRIMARY KEY (day, place),
    CONSTRAINT counts_up CHECK (place >= 1 AND count >= 1 AND last >= first)
);
"""


def upgrade() -> None:
    """Create tables that older nodes ignore."""
    for statement in STATEMENTS.strip().split(";\n"):
        if statement.strip():
            op.execute(statement)
