-- Identities at the hub: certificates, enrolment tokens, the store of each node, and the agreements of the nodes.
CREATE TABLE node_certificate (
    serial      text PRIMARY KEY,       -- hexadecimal
    node        text NOT NULL,
    key_id      text NOT NULL,
    der         bytea NOT NULL,
    issued_at   timestamptz NOT NULL,
    not_after   timestamptz NOT NULL,
    revoked_at  timestamptz,
    why         text NOT NULL DEFAULT ''
);
CREATE INDEX node_certificate_node ON node_certificate (node);

CREATE TABLE node_token (
    hash        bytea PRIMARY KEY,      -- SHA-256: the token itself is nowhere
    node        text NOT NULL,
    host_names  jsonb NOT NULL,
    made_at     timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    used_at     timestamptz,
    serial      text,                   -- of the certificate that it was used for
    CONSTRAINT used_for_one CHECK ((used_at IS NULL) = (serial IS NULL))
);

CREATE TABLE node_life (
    node        text PRIMARY KEY,
    store_uuid  text NOT NULL,
    boot        bigint NOT NULL,
    seen_at     timestamptz NOT NULL
);

CREATE TABLE definition (
    version     bigint PRIMARY KEY,
    document    text NOT NULL,          -- as it was imported, comments and all
    at          timestamptz NOT NULL,
    why         text NOT NULL DEFAULT ''
);
