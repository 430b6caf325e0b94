-- The search path of v0007: these functions run with the rights of the owner of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- The view of v0024 with the time of acceptance at the sender's node. Other nodes name it. It is null after 9999-12-30: a
-- time that Postgres, or a client in its own time zone, cannot represent would make every receive fail.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, decode(e.digest, 'hex') AS digest, b.payload, b.envelope,
    e.attributes ->> 'content_type' AS content_type, e.attributes ->> 'content_encoding' AS content_encoding,
    (e.attributes ->> 'priority')::int AS priority, e.attributes -> 'user_headers' AS headers, e.sender, p.deliveries,
    p.proved,
    nullif(e.attributes ->> 'pieces', '') AS document, NULL::bigint[] AS pieces,
    CASE WHEN e.submitted_at BETWEEN 1 AND 253402214399999 THEN to_timestamp(e.submitted_at / 1000.0) END AS submitted_at
FROM tb_0030 p
JOIN tb_0030_body b ON b.bref = p.bref
CROSS JOIN LATERAL (
    SELECT u.value -> 'attributes' AS attributes, u.value ->> 'sender' AS sender, u.value ->> 'digest' AS digest,
        (u.value ->> 'submitted_at')::numeric AS submitted_at
    FROM semq_unpack(b.envelope) u OFFSET 0
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
SELECT set_config('search_path', current_setting('semq.path_before'), true);
