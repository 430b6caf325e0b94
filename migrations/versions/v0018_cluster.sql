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
    added_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT hub_store_pkey PRIMARY KEY (semq_id, semq_db_id),
    CONSTRAINT known_weight CHECK (weight >= 0)
);

CREATE TABLE node_home (
    node TEXT NOT NULL,
    semq_id INTEGER NOT NULL,
    semq_db_id INTEGER NOT NULL,
    since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT node_home_pkey PRIMARY KEY (node)
);

CREATE TABLE hub_instance (
    life BIGINT NOT NULL,
    semq_id INTEGER NOT NULL,
    semq_db_id INTEGER NOT NULL,
    host TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    until TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT hub_instance_pkey PRIMARY KEY (life)
);
