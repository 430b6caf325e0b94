-- The tables of version 1.0. semq/store/tables.py and the modules that it names describe them. Functions, views and triggers are
-- in semq/store/sql.

CREATE TABLE semq_meta (
    single BOOLEAN DEFAULT true NOT NULL,
    store_uuid UUID NOT NULL,
    boot BIGINT DEFAULT 0 NOT NULL,
    next_queue_id BIGINT DEFAULT 1 NOT NULL,
    broker_ended BOOLEAN DEFAULT false NOT NULL,
    vault BYTEA,
    CONSTRAINT semq_meta_pkey PRIMARY KEY (single),
    CONSTRAINT one_row CHECK (single)
);

CREATE TABLE semq_incarnation (
    inc BIGINT NOT NULL,
    boot BIGINT NOT NULL,
    started_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT semq_incarnation_pkey PRIMARY KEY (inc)
);

CREATE TABLE store_lease (
    single BOOLEAN DEFAULT true NOT NULL,
    owner TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT store_lease_pkey PRIMARY KEY (single),
    CONSTRAINT one_row CHECK (single)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE tb_0031 (
    object_id BIGINT NOT NULL,
    direction SMALLINT NOT NULL,
    lk0 TEXT NOT NULL,
    inc BIGINT NOT NULL,
    sid BIGINT DEFAULT -1 NOT NULL,
    dest TEXT NOT NULL,
    dest_user TEXT DEFAULT '' NOT NULL,
    save_fwd SMALLINT NOT NULL,
    ack2 BOOLEAN NOT NULL,
    ss_status SMALLINT DEFAULT 10 NOT NULL,
    att INTEGER DEFAULT 0 NOT NULL,
    prev_inc BIGINT,
    prev_sid BIGINT,
    order_key TEXT DEFAULT '' NOT NULL,
    app_domain TEXT DEFAULT '' NOT NULL,
    app_type TEXT DEFAULT '' NOT NULL,
    app_subtype TEXT DEFAULT '' NOT NULL,
    app_key TEXT DEFAULT '' NOT NULL,
    token TEXT,
    custodian TEXT,
    void BOOLEAN DEFAULT false NOT NULL,
    lost BOOLEAN DEFAULT false NOT NULL,
    has_payload BOOLEAN DEFAULT true NOT NULL,
    held BOOLEAN DEFAULT false NOT NULL,
    parked BOOLEAN DEFAULT false NOT NULL,
    outcome SMALLINT,
    reason_code TEXT,
    reason_text TEXT,
    digest BYTEA DEFAULT '' NOT NULL,
    size BIGINT DEFAULT 0 NOT NULL,
    accepted_at timestamptz NOT NULL,
    expires_at timestamptz,
    source TEXT DEFAULT '' NOT NULL,
    priority SMALLINT DEFAULT 0 NOT NULL,
    group_place TEXT,
    document TEXT,
    CONSTRAINT tb_0031_pkey PRIMARY KEY (object_id),
    CONSTRAINT whole_prev CHECK ((prev_inc IS NULL) = (prev_sid IS NULL)),
    CONSTRAINT whole_reason CHECK ((reason_code IS NULL) = (reason_text IS NULL)),
    CONSTRAINT known_direction CHECK (direction IN (510, 520)),
    CONSTRAINT known_save_fwd CHECK (save_fwd IN (1, 2, 3)),
    CONSTRAINT known_ss_status CHECK (ss_status IN (10, 20, 30, 40, 50)),
    CONSTRAINT known_outcome CHECK (outcome IS NULL OR outcome IN (110, 120, 130, 140, 150, 160)),
    CONSTRAINT delivered_is_ss_ack2 CHECK ((ss_status = 50) = (outcome IS NOT NULL AND outcome = 110)),
    CONSTRAINT lost_is_void CHECK (lost <= void),
    CONSTRAINT counts_up CHECK (sid >= -1 AND att >= 0),
    CONSTRAINT class_3_has_a_position CHECK (direction <> 510 OR (sid >= 0) = (save_fwd = 3))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
CREATE INDEX tb_0031_dest ON tb_0031 (dest, object_id);
CREATE INDEX tb_0031_expiry ON tb_0031 (expires_at) WHERE expires_at IS NOT NULL;
CREATE UNIQUE INDEX tb_0031_position ON tb_0031 (dest, inc, sid) WHERE sid >= 0 AND direction = 510;
CREATE UNIQUE INDEX tb_0031_relayed ON tb_0031 (lk0) WHERE direction = 520;
CREATE INDEX tb_0031_relayed_key ON tb_0031 (app_key) WHERE direction = 520 AND app_key <> '';
CREATE INDEX tb_0031_track ON tb_0031 (dest, source, priority, object_id) WHERE source <> '' OR priority > 0;

CREATE TABLE tb_0031_body (
    object_id BIGINT NOT NULL,
    envelope BYTEA NOT NULL,
    payload BYTEA NOT NULL,
    CONSTRAINT tb_0031_body_pkey PRIMARY KEY (object_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
ALTER TABLE tb_0031_body ALTER COLUMN envelope SET STORAGE EXTERNAL;
ALTER TABLE tb_0031_body ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE tb_0031_stream (
    dest TEXT NOT NULL,
    inc BIGINT NOT NULL,
    next_sid BIGINT NOT NULL,
    CONSTRAINT tb_0031_stream_pkey PRIMARY KEY (dest, inc),
    CONSTRAINT counts_up CHECK (next_sid >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE tb_0031_order (
    dest TEXT NOT NULL,
    order_key TEXT NOT NULL,
    inc BIGINT NOT NULL,
    sid BIGINT NOT NULL,
    CONSTRAINT tb_0031_order_pkey PRIMARY KEY (dest, order_key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE tb_0031_token (
    token TEXT NOT NULL,
    lk0 TEXT NOT NULL,
    digest BYTEA NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT tb_0031_token_pkey PRIMARY KEY (token)
);
CREATE INDEX tb_0031_token_at ON tb_0031_token (at);

CREATE TABLE tb_0030 (
    bref BIGINT NOT NULL,
    lk0 TEXT NOT NULL,
    store TEXT NOT NULL,
    inc BIGINT NOT NULL,
    src_object_id BIGINT NOT NULL,
    sid BIGINT DEFAULT -1 NOT NULL,
    target TEXT NOT NULL,
    target_user TEXT DEFAULT '' NOT NULL,
    save_fwd SMALLINT NOT NULL,
    ack2 BOOLEAN NOT NULL,
    status SMALLINT NOT NULL,
    lk1 TEXT,
    p_ack_status SMALLINT DEFAULT 210 NOT NULL,
    s_ack_status SMALLINT DEFAULT 210 NOT NULL,
    app_status SMALLINT DEFAULT 310 NOT NULL,
    deliveries INTEGER DEFAULT 0 NOT NULL,
    prev_inc BIGINT,
    prev_sid BIGINT,
    order_key TEXT DEFAULT '' NOT NULL,
    app_domain TEXT DEFAULT '' NOT NULL,
    app_type TEXT DEFAULT '' NOT NULL,
    app_subtype TEXT DEFAULT '' NOT NULL,
    app_key TEXT DEFAULT '' NOT NULL,
    reason_code TEXT,
    reason_text TEXT,
    digest BYTEA DEFAULT '' NOT NULL,
    size BIGINT DEFAULT 0 NOT NULL,
    received_at timestamptz NOT NULL,
    proved BOOLEAN DEFAULT false NOT NULL,
    source TEXT DEFAULT '' NOT NULL,
    priority SMALLINT DEFAULT 0 NOT NULL,
    CONSTRAINT tb_0030_pkey PRIMARY KEY (bref),
    CONSTRAINT whole_prev CHECK ((prev_inc IS NULL) = (prev_sid IS NULL)),
    CONSTRAINT whole_reason CHECK ((reason_code IS NULL) = (reason_text IS NULL)),
    CONSTRAINT known_save_fwd CHECK (save_fwd IN (1, 2, 3)),
    CONSTRAINT known_status CHECK (status IN (410, 420, 430)),
    CONSTRAINT known_p_ack_status CHECK (p_ack_status IN (210, 220)),
    CONSTRAINT known_s_ack_status CHECK (s_ack_status IN (210, 220)),
    CONSTRAINT known_app_status CHECK (app_status IN (310, 320, 330)),
    CONSTRAINT counts_up CHECK (sid >= -1 AND deliveries >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
CREATE INDEX tb_0030_order ON tb_0030 (store, order_key, src_object_id) WHERE order_key <> '';
CREATE INDEX tb_0030_source ON tb_0030 (src_object_id);
CREATE INDEX tb_0030_track ON tb_0030 (target_user, source, priority, bref);

CREATE TABLE tb_0030_body (
    bref BIGINT NOT NULL,
    envelope BYTEA NOT NULL,
    payload BYTEA NOT NULL,
    CONSTRAINT tb_0030_body_pkey PRIMARY KEY (bref)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
ALTER TABLE tb_0030_body ALTER COLUMN envelope SET STORAGE EXTERNAL;
ALTER TABLE tb_0030_body ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE tb_0030_stream (
    number BIGINT NOT NULL,
    store TEXT NOT NULL,
    inc BIGINT NOT NULL,
    floor BIGINT DEFAULT 0 NOT NULL,
    closed BIGINT,
    moved_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT tb_0030_stream_pkey PRIMARY KEY (number),
    CONSTRAINT counts_up CHECK (floor >= 0),
    CONSTRAINT tb_0030_stream_store_key UNIQUE (store, inc)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE tb_0030_ledger (
    stream BIGINT NOT NULL,
    sid BIGINT NOT NULL,
    status SMALLINT NOT NULL,
    digest BYTEA DEFAULT '' NOT NULL,
    reason_code TEXT,
    reason_text TEXT,
    proved BOOLEAN DEFAULT false NOT NULL,
    CONSTRAINT tb_0030_ledger_pkey PRIMARY KEY (stream, sid),
    CONSTRAINT whole_reason CHECK ((reason_code IS NULL) = (reason_text IS NULL)),
    CONSTRAINT known_status CHECK (status IN (410, 420, 430)),
    CONSTRAINT counts_up CHECK (sid >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);

CREATE TABLE tb_0030_seen (
    ident TEXT NOT NULL,
    store TEXT NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
    status SMALLINT DEFAULT 410 NOT NULL,
    reason_code TEXT,
    reason_text TEXT,
    CONSTRAINT tb_0030_seen_pkey PRIMARY KEY (ident),
    CONSTRAINT whole_reason CHECK ((reason_code IS NULL) = (reason_text IS NULL)),
    CONSTRAINT known_status CHECK (status IN (410, 420, 430))
);
CREATE INDEX tb_0030_seen_window ON tb_0030_seen (store, at);

CREATE TABLE tb_0030_done (
    bref BIGINT NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
    parked TEXT,
    CONSTRAINT tb_0030_done_pkey PRIMARY KEY (bref)
);

CREATE TABLE semq_ledger (
    number BIGINT NOT NULL,
    at timestamptz NOT NULL,
    side SMALLINT NOT NULL,
    event SMALLINT NOT NULL,
    lk0 TEXT NOT NULL,
    target TEXT NOT NULL,
    att INTEGER NOT NULL,
    lk1 TEXT NOT NULL,
    app_domain TEXT DEFAULT '' NOT NULL,
    app_type TEXT DEFAULT '' NOT NULL,
    app_subtype TEXT DEFAULT '' NOT NULL,
    app_key TEXT DEFAULT '' NOT NULL,
    digest BYTEA NOT NULL,
    size BIGINT NOT NULL,
    detail TEXT NOT NULL,
    CONSTRAINT known_side CHECK (side IN (1, 2, 3)),
    CONSTRAINT known_event CHECK (event IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29))
) PARTITION BY RANGE (at);
CREATE INDEX semq_ledger_app_key ON semq_ledger (app_key) WHERE app_key <> '' AND event IN (1, 20);
CREATE INDEX semq_ledger_counted ON semq_ledger (number) WHERE event IN (1, 3, 4, 5, 6, 7, 8, 9, 10, 15, 16, 20, 25, 26);
CREATE INDEX semq_ledger_failures ON semq_ledger (number) WHERE event IN (6, 7, 8, 9, 10, 16, 26);
CREATE INDEX semq_ledger_lk0 ON semq_ledger (lk0);
CREATE INDEX semq_ledger_record ON semq_ledger (split_part(lk0, '.', 6)) WHERE event IN (1, 20) OR side = 2 AND event IN (3, 4, 10, 16);
CREATE INDEX semq_ledger_refusal ON semq_ledger (split_part(lk0, '.', 6)) WHERE event = 16 AND side = 1;
CREATE INDEX semq_ledger_refused ON semq_ledger (app_key) WHERE app_key <> '' AND event = 16;

CREATE TABLE broker_exchange (
    vhost TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    auto_delete BOOLEAN NOT NULL,
    internal BOOLEAN NOT NULL,
    arguments BYTEA NOT NULL,
    CONSTRAINT broker_exchange_pkey PRIMARY KEY (vhost, name)
);

CREATE TABLE broker_queue (
    queue_id BIGINT NOT NULL,
    vhost TEXT NOT NULL,
    name TEXT NOT NULL,
    auto_delete BOOLEAN NOT NULL,
    arguments BYTEA NOT NULL,
    CONSTRAINT broker_queue_pkey PRIMARY KEY (queue_id),
    CONSTRAINT broker_queue_vhost_key UNIQUE (vhost, name)
);

CREATE TABLE broker_binding (
    identity BYTEA NOT NULL,
    vhost TEXT NOT NULL,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    to_exchange BOOLEAN NOT NULL,
    routing_key TEXT NOT NULL,
    arguments BYTEA NOT NULL,
    CONSTRAINT broker_binding_pkey PRIMARY KEY (identity)
);

CREATE TABLE broker_message (
    queue_id BIGINT NOT NULL,
    position BIGINT NOT NULL,
    exchange TEXT NOT NULL,
    routing_key TEXT NOT NULL,
    priority SMALLINT NOT NULL,
    expires_at DOUBLE PRECISION,
    delivery_count INTEGER NOT NULL,
    header BYTEA NOT NULL,
    body BYTEA NOT NULL,
    body_id BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT broker_message_pkey PRIMARY KEY (queue_id, position)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
ALTER TABLE broker_message ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE broker_body (
    body_id BIGINT NOT NULL,
    index INTEGER NOT NULL,
    data BYTEA NOT NULL,
    CONSTRAINT broker_body_pkey PRIMARY KEY (body_id, index)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
ALTER TABLE broker_body ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE broker_handed_out (
    queue_id BIGINT NOT NULL,
    position BIGINT NOT NULL,
    CONSTRAINT broker_handed_out_pkey PRIMARY KEY (queue_id)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE node_certificate (
    serial TEXT NOT NULL,
    node TEXT NOT NULL,
    key_id TEXT NOT NULL,
    der BYTEA NOT NULL,
    issued_at timestamptz NOT NULL,
    not_after timestamptz NOT NULL,
    revoked_at timestamptz,
    why TEXT DEFAULT '' NOT NULL,
    CONSTRAINT node_certificate_pkey PRIMARY KEY (serial)
);
CREATE INDEX node_certificate_node ON node_certificate (node);

CREATE TABLE node_token (
    hash BYTEA NOT NULL,
    node TEXT NOT NULL,
    host_names JSONB NOT NULL,
    made_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    serial TEXT,
    CONSTRAINT node_token_pkey PRIMARY KEY (hash),
    CONSTRAINT used_for_one CHECK ((used_at IS NULL) = (serial IS NULL))
);

CREATE TABLE node_life (
    node TEXT NOT NULL,
    store_uuid TEXT NOT NULL,
    boot BIGINT NOT NULL,
    seen_at timestamptz NOT NULL,
    CONSTRAINT node_life_pkey PRIMARY KEY (node)
);

CREATE TABLE semq_retired_store (
    semq_id INTEGER NOT NULL,
    semq_db_id INTEGER NOT NULL,
    retired_by TEXT NOT NULL,
    why TEXT NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT semq_retired_store_pkey PRIMARY KEY (semq_id, semq_db_id)
);

CREATE TABLE definition (
    version BIGINT NOT NULL,
    document TEXT NOT NULL,
    at timestamptz NOT NULL,
    why TEXT DEFAULT '' NOT NULL,
    CONSTRAINT definition_pkey PRIMARY KEY (version)
);

CREATE TABLE semq_certificate (
    node TEXT NOT NULL,
    pems TEXT[] NOT NULL,
    seen_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT semq_certificate_pkey PRIMARY KEY (node)
);

CREATE TABLE semq_session_key (
    id BYTEA NOT NULL,
    peer TEXT NOT NULL,
    key_id TEXT NOT NULL,
    alg TEXT NOT NULL,
    kept TEXT NOT NULL,
    made_at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT semq_session_key_pkey PRIMARY KEY (id)
);
CREATE INDEX semq_session_key_peer ON semq_session_key (peer, made_at);

CREATE TABLE semq_receipts (
    number BIGINT NOT NULL,
    source TEXT NOT NULL,
    signature TEXT NOT NULL,
    leaves BYTEA NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
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
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE UNIQUE INDEX semq_chain_first ON semq_chain (first);

CREATE TABLE semq_figure (
    minutes SMALLINT NOT NULL,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    at timestamptz NOT NULL,
    side SMALLINT NOT NULL,
    event SMALLINT NOT NULL,
    bucket SMALLINT NOT NULL,
    documents BIGINT NOT NULL,
    CONSTRAINT semq_figure_pkey PRIMARY KEY (minutes, source, target, at, side, event, bucket)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX semq_figure_at ON semq_figure (minutes, at);

CREATE TABLE semq_counted (
    single BOOLEAN DEFAULT true NOT NULL,
    number BIGINT NOT NULL,
    at timestamptz NOT NULL,
    CONSTRAINT semq_counted_pkey PRIMARY KEY (single),
    CONSTRAINT one_row CHECK (single)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

CREATE TABLE tb_0031_submit (
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    target TEXT NOT NULL,
    payload BYTEA NOT NULL,
    app_key TEXT DEFAULT '' NOT NULL,
    save_fwd INTEGER DEFAULT 3 NOT NULL,
    ack2 INTEGER DEFAULT 1 NOT NULL,
    order_key TEXT DEFAULT '' NOT NULL,
    token TEXT,
    content_type TEXT DEFAULT '' NOT NULL,
    headers JSONB DEFAULT '{}' NOT NULL,
    submitted_at timestamptz DEFAULT now() NOT NULL,
    reason_code TEXT,
    reason_text TEXT,
    content_encoding TEXT DEFAULT '' NOT NULL,
    priority SMALLINT DEFAULT 0 NOT NULL,
    lk0 TEXT,
    refused_at timestamptz,
    wait_code TEXT,
    wait_text TEXT,
    waits_since timestamptz,
    not_before timestamptz,
    envelope BYTEA,
    CONSTRAINT tb_0031_submit_pkey PRIMARY KEY (number),
    CONSTRAINT whole_reason CHECK ((reason_code IS NULL) = (reason_text IS NULL)),
    CONSTRAINT whole_wait CHECK ((wait_code IS NULL) = (wait_text IS NULL) AND (wait_code IS NULL) = (waits_since IS NULL))
);
CREATE INDEX tb_0031_submit_due ON tb_0031_submit (not_before, number) WHERE not_before IS NOT NULL;
CREATE INDEX tb_0031_submit_key ON tb_0031_submit (regexp_replace(app_key, '^([^/]*/){3}', '')) WHERE app_key <> '';
CREATE INDEX tb_0031_submit_open ON tb_0031_submit (number) WHERE reason_code IS NULL AND not_before IS NULL;
CREATE INDEX tb_0031_submit_refused ON tb_0031_submit (lk0) WHERE reason_code IS NOT NULL;
CREATE INDEX tb_0031_submit_token ON tb_0031_submit (token) WHERE token IS NOT NULL;

CREATE TABLE tb_0031_piece (
    document BIGINT NOT NULL,
    number INTEGER NOT NULL,
    payload BYTEA NOT NULL,
    CONSTRAINT tb_0031_piece_pkey PRIMARY KEY (document, number)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_insert_scale_factor = 0.2, autovacuum_analyze_scale_factor = 0.1, autovacuum_analyze_threshold = 2000);
ALTER TABLE tb_0031_piece ALTER COLUMN payload SET STORAGE EXTERNAL;

CREATE TABLE tb_0031_taken (
    number BIGINT NOT NULL,
    lk0 TEXT NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT tb_0031_taken_pkey PRIMARY KEY (number)
);
CREATE INDEX tb_0031_taken_at ON tb_0031_taken (at);
CREATE INDEX tb_0031_taken_lk0 ON tb_0031_taken (lk0);

CREATE TABLE tb_0031_renamed (
    lk0 TEXT NOT NULL,
    number BIGINT NOT NULL,
    at timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT tb_0031_renamed_pkey PRIMARY KEY (lk0)
);
CREATE INDEX tb_0031_renamed_at ON tb_0031_renamed (at);
CREATE INDEX tb_0031_renamed_number ON tb_0031_renamed (number);

CREATE TABLE tb_0031_wait (
    target TEXT NOT NULL,
    reason_code TEXT NOT NULL,
    reason_text TEXT NOT NULL,
    since timestamptz DEFAULT now() NOT NULL,
    number BIGINT,
    CONSTRAINT tb_0031_wait_pkey PRIMARY KEY (target)
);

CREATE TABLE web_account (
    name TEXT NOT NULL,
    password TEXT,
    roles TEXT[] NOT NULL,
    made_at timestamptz NOT NULL,
    made_by TEXT NOT NULL,
    disabled_at timestamptz,
    CONSTRAINT web_account_pkey PRIMARY KEY (name)
);

CREATE TABLE web_session (
    hash BYTEA NOT NULL,
    account TEXT NOT NULL,
    roles TEXT[],
    made_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    peer TEXT DEFAULT '' NOT NULL,
    CONSTRAINT web_session_pkey PRIMARY KEY (hash)
);
CREATE INDEX web_session_account ON web_session (account);
CREATE INDEX web_session_ends_at ON web_session (ends_at);

CREATE TABLE web_link (
    hash BYTEA NOT NULL,
    made_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz,
    CONSTRAINT web_link_pkey PRIMARY KEY (hash)
);

CREATE TABLE web_token (
    id TEXT NOT NULL,
    hash BYTEA NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT[] NOT NULL,
    inbox TEXT,
    made_at timestamptz NOT NULL,
    made_by TEXT NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz,
    revoked_by TEXT,
    CONSTRAINT web_token_pkey PRIMARY KEY (id),
    CONSTRAINT whole_revocation CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE UNIQUE INDEX web_token_hash ON web_token (hash);

CREATE TABLE web_audit (
    number BIGINT GENERATED ALWAYS AS IDENTITY,
    at timestamptz NOT NULL,
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

CREATE TABLE hub_identity (
    single BOOLEAN DEFAULT true NOT NULL,
    hub TEXT NOT NULL,
    hub_id UUID NOT NULL,
    carrier_key BYTEA NOT NULL,
    CONSTRAINT hub_identity_pkey PRIMARY KEY (single),
    CONSTRAINT one_row CHECK (single)
);

CREATE TABLE hub_store (
    semq_id INTEGER NOT NULL,
    semq_db_id INTEGER NOT NULL,
    store_uuid UUID,
    weight DOUBLE PRECISION DEFAULT 1 NOT NULL,
    added_at timestamptz DEFAULT now() NOT NULL,
    boot BIGINT DEFAULT 0 NOT NULL,
    chain_place BIGINT DEFAULT 0 NOT NULL,
    chain_count BIGINT DEFAULT 0 NOT NULL,
    CONSTRAINT hub_store_pkey PRIMARY KEY (semq_id, semq_db_id),
    CONSTRAINT known_weight CHECK (weight >= 0)
);

CREATE TABLE node_home (
    node TEXT NOT NULL,
    semq_id INTEGER NOT NULL,
    semq_db_id INTEGER NOT NULL,
    since timestamptz DEFAULT now() NOT NULL,
    CONSTRAINT node_home_pkey PRIMARY KEY (node)
);

CREATE TABLE hub_instance (
    life BIGINT NOT NULL,
    semq_id INTEGER NOT NULL,
    semq_db_id INTEGER NOT NULL,
    host TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    started_at timestamptz DEFAULT now() NOT NULL,
    until timestamptz NOT NULL,
    CONSTRAINT hub_instance_pkey PRIMARY KEY (life)
);

-- Takes lines of days without a partition, so that no insert fails; they are moved later. Partitions are normally made ahead.
-- Its rows are deleted, which a publication FOR ALL TABLES permits only with an identity of the rows.
CREATE TABLE semq_ledger_other PARTITION OF semq_ledger DEFAULT;
ALTER TABLE semq_ledger_other REPLICA IDENTITY FULL;
