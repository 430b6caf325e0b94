CREATE TABLE web_account (
    name TEXT NOT NULL,
    password TEXT,
    roles TEXT[] NOT NULL,
    made_at TIMESTAMP WITH TIME ZONE NOT NULL,
    made_by TEXT NOT NULL,
    disabled_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT web_account_pkey PRIMARY KEY (name)
);
CREATE TABLE web_session (
    hash BYTEA NOT NULL,
    account TEXT NOT NULL,
    roles TEXT[],
    made_at TIMESTAMP WITH TIME ZONE NOT NULL,
    seen_at TIMESTAMP WITH TIME ZONE NOT NULL,
    ends_at TIMESTAMP WITH TIME ZONE NOT NULL,
    peer TEXT DEFAULT '' NOT NULL,
    CONSTRAINT web_session_pkey PRIMARY KEY (hash)
);
CREATE INDEX web_session_account ON web_session (account);
CREATE INDEX web_session_ends_at ON web_session (ends_at);
CREATE TABLE web_link (
    hash BYTEA NOT NULL,
    made_at TIMESTAMP WITH TIME ZONE NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    used_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT web_link_pkey PRIMARY KEY (hash)
);
CREATE TABLE web_token (
    id TEXT NOT NULL,
    hash BYTEA NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT[] NOT NULL,
    inbox TEXT,
    made_at TIMESTAMP WITH TIME ZONE NOT NULL,
    made_by TEXT NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE,
    revoked_at TIMESTAMP WITH TIME ZONE,
    revoked_by TEXT,
    CONSTRAINT web_token_pkey PRIMARY KEY (id),
    CONSTRAINT whole_revocation CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE UNIQUE INDEX web_token_hash ON web_token (hash);
CREATE TABLE web_audit (
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    at TIMESTAMP WITH TIME ZONE NOT NULL,
    who TEXT NOT NULL,
    via TEXT NOT NULL,
    peer TEXT DEFAULT '' NOT NULL,
    act TEXT NOT NULL,
    arguments JSONB DEFAULT '{}' NOT NULL,
    outcome TEXT NOT NULL,
    detail TEXT DEFAULT '' NOT NULL,
    asked BIGINT,
    read_payload BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT web_audit_pkey PRIMARY KEY (number),
    CONSTRAINT known_outcome CHECK (outcome IN ('asked', 'done', 'refused', 'failed'))
);
CREATE INDEX web_audit_at ON web_audit (at);
CREATE INDEX web_audit_who ON web_audit (who, number);

-- This trigger prevents programs and users of the console from changing the log; the owner of the tables can remove it.
CREATE FUNCTION web_audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('semq.audit_retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'SEMQ: lines of the audit log are only added';
END
$$;
CREATE TRIGGER web_audit_append_only BEFORE UPDATE OR DELETE ON web_audit
    FOR EACH ROW EXECUTE FUNCTION web_audit_append_only();
CREATE TRIGGER web_audit_no_truncate BEFORE TRUNCATE ON web_audit
    FOR EACH STATEMENT EXECUTE FUNCTION web_audit_append_only();
