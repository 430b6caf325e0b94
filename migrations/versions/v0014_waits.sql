ALTER TABLE tb_0031_submit
    ADD COLUMN wait_code TEXT,
    ADD COLUMN wait_text TEXT,
    ADD COLUMN waits_since TIMESTAMP WITH TIME ZONE,
    ADD CONSTRAINT whole_wait CHECK ((wait_code IS NULL) = (wait_text IS NULL) AND (wait_code IS NULL) = (waits_since IS NULL));
ALTER TABLE tb_0031_wait ADD COLUMN number BIGINT;

CREATE TABLE tb_0031_renamed (
    lk0 TEXT NOT NULL,
    number BIGINT NOT NULL,
    at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT tb_0031_renamed_pkey PRIMARY KEY (lk0)
);
CREATE INDEX tb_0031_renamed_number ON tb_0031_renamed (number);
CREATE INDEX tb_0031_renamed_at ON tb_0031_renamed (at);

-- Indexes that find messages by name; none is on a column that changes.
CREATE INDEX tb_0031_taken_lk0 ON tb_0031_taken (lk0);
CREATE INDEX tb_0031_submit_key ON tb_0031_submit (regexp_replace(app_key, '^([^/]*/){3}', '')) WHERE app_key <> '';
CREATE INDEX tb_0031_relayed_key ON tb_0031 (app_key) WHERE direction = 520 AND app_key <> '';
CREATE INDEX semq_ledger_refusal ON semq_ledger ((split_part(lk0, '.', 6))) WHERE event = 16 AND side = 1;

-- The search path of v0007: create and find names in the schema of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- The state of a message of this node: its outcome if it has ended, else its status. Only details of the ledger with an error
-- code are reasons.
CREATE OR REPLACE FUNCTION semq_state(lk0 text)
RETURNS TABLE (state text, reason_code text, reason_text text, changed_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH last_line AS (
        SELECT l.event, l.at, substring(l.detail FROM '^SEMQ-[0-9]{4}') AS code, l.detail
        FROM semq_ledger l
        WHERE l.lk0 = $1 AND l.side = 1 AND (l.event BETWEEN 1 AND 10 OR l.event = 16)
        ORDER BY l.at DESC, l.number DESC LIMIT 1
    )
    SELECT
        CASE coalesce(q.outcome, q.ss_status)
            WHEN 10 THEN 'SS_INIT' WHEN 20 THEN 'SS_SENT' WHEN 30 THEN 'SS_ACK_FWD' WHEN 40 THEN 'SS_ACK'
            WHEN 110 THEN 'DELIVERED' WHEN 120 THEN 'REJECTED' WHEN 130 THEN 'CANCELLED' WHEN 140 THEN 'LOST'
            WHEN 150 THEN 'UNKNOWN' WHEN 160 THEN 'DROPPED'
        END,
        q.reason_code, q.reason_text, coalesce((SELECT at FROM last_line), q.accepted_at)
    FROM tb_0031 q
    WHERE q.object_id = split_part($1, '.', 6)::bigint AND q.lk0 = $1
    UNION ALL
    SELECT
        CASE l.event
            WHEN 1 THEN 'SS_INIT' WHEN 2 THEN 'SS_SENT' WHEN 3 THEN 'SS_ACK_FWD' WHEN 4 THEN 'SS_ACK' WHEN 5 THEN 'DELIVERED'
            WHEN 6 THEN 'REJECTED' WHEN 7 THEN 'CANCELLED' WHEN 8 THEN 'LOST' WHEN 9 THEN 'UNKNOWN' WHEN 10 THEN 'DROPPED'
            WHEN 16 THEN CASE WHEN l.code = 'SEMQ-1210' THEN 'CANCELLED' ELSE 'REFUSED' END
        END,
        l.code, CASE WHEN l.code IS NOT NULL THEN nullif(regexp_replace(l.detail, '^SEMQ-[0-9]{4} ', ''), '') END, l.at
    FROM last_line l
    WHERE NOT EXISTS (SELECT FROM tb_0031 q WHERE q.object_id = split_part($1, '.', 6)::bigint AND q.lk0 = $1)
$$;

-- The state of a submission; no row if the node knows no submission with this number (any more). A submission that was tried
-- has its own reason to wait; later ones to the same target wait for it.
CREATE OR REPLACE FUNCTION semq_status(submission bigint) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT
        s.number, CASE WHEN s.reason_code IS NOT NULL THEN s.lk0 END,
        CASE
            WHEN s.reason_code IS NOT NULL THEN 'REFUSED'
            WHEN coalesce(s.wait_code, w.reason_code) IS NOT NULL THEN 'WAITS'
            ELSE 'SUBMITTED'
        END,
        coalesce(s.reason_code, s.wait_code, CASE WHEN w.number IS NULL THEN w.reason_code ELSE 'SEMQ-1229' END),
        coalesce(s.reason_text, s.wait_text, CASE WHEN w.number IS NULL THEN w.reason_text ELSE format(
            'It waits behind submission %s to the same target, which waits: %s %s', w.number, w.reason_code, w.reason_text
        ) END),
        coalesce(s.refused_at, s.waits_since, greatest(w.since, s.submitted_at), s.submitted_at)
    FROM tb_0031_submit s
    LEFT JOIN tb_0031_wait w
        ON w.target = s.target AND s.reason_code IS NULL AND s.wait_code IS NULL AND coalesce(w.number, 0) < s.number
    WHERE s.number = $1
    UNION ALL
    SELECT t.number, t.lk0, d.state, d.reason_code, d.reason_text, d.changed_at
    FROM tb_0031_taken t, semq_state(t.lk0) d
    WHERE t.number = $1
$$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
