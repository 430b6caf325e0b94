-- The search path of v0007: these functions run with the rights of the owner of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- The view of v0019 without pieces, which are parts of documents.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, p.digest, b.payload, b.envelope,
    e.attributes ->> 'content_type' AS content_type, e.attributes ->> 'content_encoding' AS content_encoding,
    (e.attributes ->> 'priority')::int AS priority, e.attributes -> 'user_headers' AS headers, e.sender, p.deliveries,
    p.proved,
    nullif(e.attributes ->> 'pieces', '') AS document, NULL::bigint[] AS pieces
FROM tb_0030 p
JOIN tb_0030_body b ON b.bref = p.bref
CROSS JOIN LATERAL (
    SELECT u.value -> 'attributes' AS attributes, u.value ->> 'sender' AS sender FROM semq_unpack(b.envelope) u OFFSET 0
) e
WHERE p.app_status = 310 AND p.status = 410 AND p.target_user <> '_pieces'
    AND NOT EXISTS (SELECT FROM tb_0030_done d WHERE d.bref = p.bref)
    AND (p.prev_inc IS NULL OR EXISTS (
        SELECT FROM tb_0030_stream s
        WHERE s.store = p.store AND s.inc = p.prev_inc AND (
            p.prev_sid < s.floor OR p.prev_sid >= s.closed
            OR EXISTS (SELECT FROM tb_0030_ledger l WHERE l.stream = s.number AND l.sid = p.prev_sid)
        )
    ))
    AND (p.order_key = '' OR NOT EXISTS (
        SELECT FROM tb_0030 e
        WHERE e.store = p.store AND e.order_key = p.order_key AND e.order_key <> '' AND e.src_object_id < p.src_object_id
            AND e.app_status = 310 AND NOT EXISTS (SELECT FROM tb_0030_done d WHERE d.bref = e.bref)
    ));

-- semq_status of v0022: a document whose pieces are sent first is IN_PIECES; the time is AFTER_PIECES_MS of semq.umx_t.pieces.
CREATE OR REPLACE FUNCTION semq_status(submission bigint) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT
        s.number, CASE WHEN s.reason_code IS NOT NULL OR s.envelope IS NOT NULL THEN s.lk0 END,
        CASE
            WHEN s.reason_code IS NOT NULL THEN 'REFUSED'
            WHEN s.not_before = to_timestamp(221845392000) THEN 'IN_PIECES'
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
SELECT set_config('search_path', current_setting('semq.path_before'), true);
