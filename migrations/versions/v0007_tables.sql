-- Tables and columns for the functions of applications. A node of the previous version can use these tables.

ALTER TABLE tb_0031_submit
    ADD COLUMN content_encoding TEXT DEFAULT '' NOT NULL,
    ADD COLUMN priority SMALLINT DEFAULT 0 NOT NULL,
    ADD COLUMN lk0 TEXT,
    ADD COLUMN refused_at TIMESTAMP WITH TIME ZONE;
CREATE INDEX tb_0031_submit_refused ON tb_0031_submit (lk0) WHERE reason_code IS NOT NULL;
CREATE INDEX tb_0031_submit_token ON tb_0031_submit (token) WHERE token IS NOT NULL;

CREATE TABLE tb_0031_taken (
    number BIGINT NOT NULL,
    lk0 TEXT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT tb_0031_taken_pkey PRIMARY KEY (number)
);
CREATE INDEX tb_0031_taken_at ON tb_0031_taken (at);

CREATE TABLE tb_0031_wait (
    target TEXT NOT NULL,
    reason_code TEXT NOT NULL,
    reason_text TEXT NOT NULL,
    since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT tb_0031_wait_pkey PRIMARY KEY (target)
);

ALTER TABLE tb_0030_done ADD COLUMN parked TEXT;

CREATE INDEX semq_ledger_refused ON semq_ledger (app_key) WHERE app_key <> '' AND event = 16;
