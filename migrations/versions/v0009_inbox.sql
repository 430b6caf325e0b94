-- The view of v0007 with one more column at the end: whether a seal or a signature proves the origin of the document.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, p.digest, b.payload, b.envelope,
    e.attributes ->> 'content_type' AS content_type, e.attributes ->> 'content_encoding' AS content_encoding,
    (e.attributes ->> 'priority')::int AS priority, e.attributes -> 'user_headers' AS headers, e.sender, p.deliveries,
    p.proved
FROM tb_0030 p
JOIN tb_0030_body b ON b.bref = p.bref
CROSS JOIN LATERAL (
    SELECT u.value -> 'attributes' AS attributes, u.value ->> 'sender' AS sender FROM semq_unpack(b.envelope) u OFFSET 0
) e
WHERE p.app_status = 310 AND p.status = 410
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
