-- The search path of v0007: these functions run with the rights of the owner of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- The view of v0023 with the digest in the envelope, which is that of the payload; column `digest` of a sealed document is salted.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, decode(e.digest, 'hex') AS digest, b.payload, b.envelope,
    e.attributes ->> 'content_type' AS content_type, e.attributes ->> 'content_encoding' AS content_encoding,
    (e.attributes ->> 'priority')::int AS priority, e.attributes -> 'user_headers' AS headers, e.sender, p.deliveries,
    p.proved,
    nullif(e.attributes ->> 'pieces', '') AS document, NULL::bigint[] AS pieces
FROM tb_0030 p
JOIN tb_0030_body b ON b.bref = p.bref
CROSS JOIN LATERAL (
    SELECT u.value -> 'attributes' AS attributes, u.value ->> 'sender' AS sender, u.value ->> 'digest' AS digest
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

-- semq_pieces_of of v0019 with the digests in the envelopes, too. Unpacking thousands of envelopes would take seconds, so the
-- field is found by its bytes: the msgpack text `digest`, and 0xc4 0x20 before 32 bytes. A piece that has these bytes twice,
-- as its sender may have put them into another field, has no digest here, so its document is parked.
CREATE OR REPLACE FUNCTION semq_pieces_of(source text, document text) RETURNS TABLE (
    bref bigint, number int, size bigint, digest bytea
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH found AS (
        SELECT p.bref, p.size, b.envelope, position(convert_to($2 || '/', 'UTF8') IN b.envelope) AS place
        FROM tb_0030 p JOIN tb_0030_body b ON b.bref = p.bref
        WHERE p.target_user = '_pieces' AND p.source = $1 AND p.status = 410 AND p.app_status = 310
    ), named AS (
        SELECT f.*, position('\xa6646967657374c420'::bytea IN f.envelope) AS mark, substring(
            encode(substring(f.envelope FROM f.place + octet_length($2) + 1 FOR 9), 'escape') FROM '^[0-9]{1,8}'
        ) AS number
        FROM found f
        WHERE f.place > 0
    )
    SELECT n.bref, n.number::int, n.size, CASE
        WHEN n.mark > 0 AND position('\xa6646967657374c420'::bytea IN substring(n.envelope FROM n.mark + 9)) = 0
        THEN substring(n.envelope FROM n.mark + 9 FOR 32) ELSE ''
    END
    FROM named n
    WHERE n.number IS NOT NULL
$$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
