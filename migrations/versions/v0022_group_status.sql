-- The search path of v0007: create and find names in the schema of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- The state of a message, or of a submission to a group by its name: while messages to members have not ended, the lowest
-- status among them; then that of the first member that did not get the document, or DELIVERED. The first ledger line of the
-- first member has the number of members, whose record ids follow that of the submission.
CREATE FUNCTION semq_state_of(lk0 text)
RETURNS TABLE (state text, reason_code text, reason_text text, changed_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH submission AS (
        SELECT
            regexp_replace($1, '[^.]*$', '') AS origin, split_part($1, '.', 6)::bigint AS id,
            substring(l.detail FROM 'member 1 of ([0-9]+) of ')::int AS members
        FROM semq_ledger l
        WHERE split_part(l.lk0, '.', 6) = (split_part($1, '.', 6)::bigint + 1)::text
            AND (l.event IN (1, 20) OR l.side = 2 AND l.event IN (3, 4, 10, 16))  -- as in the index semq_ledger_record
            AND l.event = 1 AND l.side = 1 AND position('member 1 of ' IN l.detail) > 0
            AND position(format(' of %s to ', $1) IN l.detail) > 0
        LIMIT 1
    ), members AS (
        SELECT d.*, n
        FROM submission s, generate_series(1, s.members) n, semq_state(s.origin || (s.id + n)) d
    )
    SELECT d.* FROM semq_state($1) d
    UNION ALL
    (
        SELECT m.state, m.reason_code, m.reason_text, (SELECT max(changed_at) FROM members)
        FROM members m
        ORDER BY
            coalesce(array_position(ARRAY['SS_INIT', 'SS_SENT', 'SS_ACK_FWD', 'SS_ACK'], m.state), 5),
            m.state = 'DELIVERED', n
        LIMIT 1
    )
$$;
REVOKE ALL ON FUNCTION semq_state_of FROM PUBLIC;

-- The state of a submission; no row if the node knows no submission with this number (any more). A submission that was tried
-- has its own reason to wait; later ones to the same target wait for it.
CREATE OR REPLACE FUNCTION semq_status(submission bigint) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT
        s.number, CASE WHEN s.reason_code IS NOT NULL OR s.envelope IS NOT NULL THEN s.lk0 END,
        CASE
            WHEN s.reason_code IS NOT NULL THEN 'REFUSED'
            WHEN s.not_before IS NOT NULL THEN 'SCHEDULED'
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
        ON w.target = s.target AND s.reason_code IS NULL AND s.wait_code IS NULL AND s.not_before IS NULL
            AND coalesce(w.number, 0) < s.number
    WHERE s.number = $1
    UNION ALL
    SELECT t.number, t.lk0, d.state, d.reason_code, d.reason_text, d.changed_at
    FROM tb_0031_taken t, semq_state_of(t.lk0) d
    WHERE t.number = $1
$$;

-- The same by token, also for documents submitted by AMQP: the document if it exists, else the last submission.
CREATE OR REPLACE FUNCTION semq_status(token text) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT NULL::bigint, k.lk0, d.state, d.reason_code, d.reason_text, d.changed_at
    FROM tb_0031_token k, semq_state_of(k.lk0) d
    WHERE k.token = $1
    UNION ALL
    (
        SELECT o.* FROM tb_0031_submit s, semq_status(s.number) o
        WHERE s.token = $1 AND NOT EXISTS (SELECT FROM tb_0031_token k WHERE k.token = $1)
        ORDER BY s.number DESC LIMIT 1
    )
$$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
