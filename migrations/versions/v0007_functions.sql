-- The functions for applications, with their own search path: they run with the rights of the owner of the tables, so a
-- caller's temporary table (searched last here) must not replace a table of the node.

-- Create and find names in the schema of the tables from here on; the former path is restored at the end.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- Grant the rights on the old form of semq_send on the new one.
CREATE TEMPORARY TABLE semq_send_granted ON COMMIT DROP AS
SELECT DISTINCT a.grantee::regrole AS role
FROM pg_proc p, aclexplode(p.proacl) a
WHERE p.oid = 'semq_send(text, bytea, text, int, int, text, text, text, jsonb)'::regprocedure
    AND a.grantee <> 0 AND a.grantee <> p.proowner;
DROP FUNCTION semq_send(text, bytea, text, int, int, text, text, text, jsonb);

-- Submit a document in the caller's transaction; it is sent if the transaction commits. Returns the number of the submission,
-- for semq_status.
CREATE FUNCTION semq_send(
    target text, payload bytea, app_key text DEFAULT '', save_fwd int DEFAULT 3, ack2 int DEFAULT 1, order_key text DEFAULT '',
    token text DEFAULT NULL, content_type text DEFAULT '', headers jsonb DEFAULT '{}', encrypt boolean DEFAULT false,
    expires_at timestamptz DEFAULT NULL, priority int DEFAULT 0, content_encoding text DEFAULT ''
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    given bigint;
    attributes jsonb := coalesce(semq_send.headers, '{}');
    fault text := CASE
        WHEN semq_send.target IS NULL OR semq_send.target !~ '^([0-9]{1,3}\.)?[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64})?$'
            THEN 'SEMQ-1101 target: write an institution as 56001, a user of it as 56001/name'
        WHEN semq_send.payload IS NULL THEN 'SEMQ-1102 payload: there is none'
        WHEN semq_send.save_fwd IS NULL OR semq_send.save_fwd NOT IN (1, 2, 3) THEN 'SEMQ-1102 save_fwd: 1, 2 or 3'
        WHEN semq_send.ack2 IS NULL OR semq_send.ack2 NOT IN (0, 1) THEN 'SEMQ-1102 ack2: 0 or 1'
        WHEN coalesce(semq_send.app_key, '') <> '' AND semq_send.app_key !~ '^[^/]{0,128}/[^/]{0,128}/[^/]{0,128}/.{0,128}$'
            THEN 'SEMQ-1103 app_key: write domain/type/subtype/key'
        WHEN coalesce(semq_send.order_key, '') <> '' AND semq_send.save_fwd <> 3 THEN 'SEMQ-1104 order_key: needs save_fwd 3'
        WHEN length(semq_send.order_key) > 128 THEN 'SEMQ-1102 order_key: at most 128 characters'
        WHEN length(semq_send.token) > 200 THEN 'SEMQ-1102 token: at most 200 characters'
        WHEN semq_send.priority NOT BETWEEN 0 AND 255 THEN 'SEMQ-1102 priority: 0 to 255'
        WHEN octet_length(semq_send.content_type) > 255 THEN 'SEMQ-1102 content_type: at most 255 octets'
        WHEN octet_length(semq_send.content_encoding) > 255 THEN 'SEMQ-1102 content_encoding: at most 255 octets'
        WHEN semq_send.expires_at NOT BETWEEN '1970-01-01 UTC' AND '9999-12-31 UTC' THEN 'SEMQ-1102 expires_at: 1970 to 9999'
        WHEN semq_send.expires_at <= clock_timestamp() THEN 'SEMQ-1206 expires_at: that time has passed'
        WHEN jsonb_typeof(semq_send.headers) <> 'object' THEN 'SEMQ-1102 headers: a JSON object'
    END;
BEGIN
    IF fault IS NULL THEN
        SELECT format('SEMQ-1102 headers: %s is a parameter of semq_send', min(k)) INTO fault
        FROM jsonb_object_keys(attributes) k
        WHERE k IN ('@AppKey', '@SaveFwd', '@Ack2', '@OrderKey', '@Token', '@Encrypt', '@ExpiresAt')
        HAVING count(*) > 0;
    END IF;
    IF fault IS NULL THEN
        SELECT format('SEMQ-1102 headers: there is no attribute %s for applications', min(k)) INTO fault
        FROM jsonb_object_keys(attributes) k
        WHERE k LIKE '@%' AND k NOT IN ('@Reliable', '@Fixed')
        HAVING count(*) > 0;
    END IF;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF semq_send.encrypt THEN
        attributes := attributes || '{"@Encrypt": 1}';
    END IF;
    IF semq_send.expires_at IS NOT NULL THEN
        attributes := attributes
            || jsonb_build_object('@ExpiresAt', ceil(extract(epoch FROM semq_send.expires_at) * 1000)::bigint);
    END IF;
    INSERT INTO tb_0031_submit AS s (
        target, payload, app_key, save_fwd, ack2, order_key, token, content_type, headers, content_encoding, priority
    ) VALUES (
        semq_send.target, semq_send.payload, coalesce(semq_send.app_key, ''), semq_send.save_fwd, semq_send.ack2,
        coalesce(semq_send.order_key, ''), nullif(semq_send.token, ''), coalesce(semq_send.content_type, ''), attributes,
        coalesce(semq_send.content_encoding, ''), coalesce(semq_send.priority, 0)
    ) RETURNING s.number INTO given;
    PERFORM pg_notify('semq_submit', '');  -- only wakes the node early
    RETURN given;
END $$;

-- The state of a message of this node: its outcome if it has ended, else its status.
CREATE FUNCTION semq_state(lk0 text) RETURNS TABLE (state text, reason_code text, reason_text text, changed_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH last_line AS (
        SELECT l.event, l.detail, l.at FROM semq_ledger l
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
            WHEN 16 THEN 'REFUSED'
        END,
        substring(l.detail FROM '^SEMQ-[0-9]{4}'), nullif(regexp_replace(l.detail, '^SEMQ-[0-9]{4} ', ''), ''), l.at
    FROM last_line l
    WHERE NOT EXISTS (SELECT FROM tb_0031 q WHERE q.object_id = split_part($1, '.', 6)::bigint AND q.lk0 = $1)
$$;

-- The state of a submission; no row if the node knows no submission with this number (any more).
CREATE FUNCTION semq_status(submission bigint) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT
        s.number, s.lk0,
        CASE WHEN s.reason_code IS NOT NULL THEN 'REFUSED' WHEN w.target IS NOT NULL THEN 'WAITS' ELSE 'SUBMITTED' END,
        coalesce(s.reason_code, w.reason_code), coalesce(s.reason_text, w.reason_text),
        coalesce(s.refused_at, w.since, s.submitted_at)
    FROM tb_0031_submit s
    LEFT JOIN tb_0031_wait w ON w.target = s.target AND s.reason_code IS NULL
    WHERE s.number = $1
    UNION ALL
    SELECT t.number, t.lk0, d.state, d.reason_code, d.reason_text, d.changed_at
    FROM tb_0031_taken t, semq_state(t.lk0) d
    WHERE t.number = $1
$$;

-- The same by token, also for documents submitted by AMQP: the document if it exists, else the last submission.
CREATE FUNCTION semq_status(token text) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT NULL::bigint, k.lk0, d.state, d.reason_code, d.reason_text, d.changed_at
    FROM tb_0031_token k, semq_state(k.lk0) d
    WHERE k.token = $1
    UNION ALL
    (
        SELECT o.* FROM tb_0031_submit s, semq_status(s.number) o
        WHERE s.token = $1 AND NOT EXISTS (SELECT FROM tb_0031_token k WHERE k.token = $1)
        ORDER BY s.number DESC LIMIT 1
    )
$$;

-- Convert MessagePack to JSON, for the envelopes of bodies: byte strings as hexadecimal text. Fails if it is not MessagePack.
CREATE FUNCTION semq_unpack(data bytea, INOUT place int DEFAULT 0, OUT value jsonb)
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    head int := get_byte(data, place);
    kind text;
    width int := 0;
    count bigint := 0;
    inner_value jsonb;
    inner_key jsonb;
    bits bigint;
    power int;
BEGIN
    place := place + 1;
    CASE
        WHEN head < 128 THEN value := to_jsonb(head); RETURN;
        WHEN head >= 224 THEN value := to_jsonb(head - 256); RETURN;
        WHEN head < 144 THEN kind := 'map'; count := head & 15;
        WHEN head < 160 THEN kind := 'array'; count := head & 15;
        WHEN head < 192 THEN kind := 'text'; count := head & 31;
        WHEN head = 192 THEN value := 'null'; RETURN;
        WHEN head IN (194, 195) THEN value := to_jsonb(head = 195); RETURN;
        WHEN head BETWEEN 196 AND 198 THEN kind := 'octets'; width := 1 << (head - 196);
        WHEN head BETWEEN 202 AND 203 THEN kind := 'float'; width := 4 << (head - 202);
        WHEN head BETWEEN 204 AND 207 THEN kind := 'unsigned'; width := 1 << (head - 204);
        WHEN head BETWEEN 208 AND 211 THEN kind := 'signed'; width := 1 << (head - 208);
        WHEN head BETWEEN 217 AND 219 THEN kind := 'text'; width := 1 << (head - 217);
        WHEN head BETWEEN 220 AND 221 THEN kind := 'array'; width := 2 << (head - 220);
        WHEN head BETWEEN 222 AND 223 THEN kind := 'map'; width := 2 << (head - 222);
        ELSE kind := 'other'; count := CASE
            WHEN head BETWEEN 212 AND 216 THEN 1 + (1 << (head - 212))
            ELSE 1 END;
            IF head BETWEEN 199 AND 201 THEN
                width := 1 << (head - 199);
            END IF;
    END CASE;
    bits := 0;
    FOR i IN 0 .. width - 1 LOOP
        bits := (bits << 8) | get_byte(data, place + i);
    END LOOP;
    place := place + width;
    IF kind = 'unsigned' THEN
        value := to_jsonb(CASE WHEN bits < 0 THEN bits::numeric + 18446744073709551616 ELSE bits::numeric END);
        RETURN;
    ELSIF kind = 'signed' THEN
        value := to_jsonb(CASE WHEN width < 8 AND bits >= 1::bigint << (8 * width - 1) THEN bits - (1::bigint << (8 * width))
            ELSE bits END);
        RETURN;
    ELSIF kind = 'float' THEN
        IF width = 4 THEN
            power := (bits >> 23 & 255)::int - 150;
            value := CASE WHEN power = 105 THEN 'null'::jsonb ELSE to_jsonb(
                ((bits & 8388607) + CASE WHEN power > -150 THEN 8388608 ELSE 0 END)::float8
                * 2::float8 ^ greatest(power, -149) * CASE WHEN bits >> 31 & 1 = 1 THEN -1 ELSE 1 END) END;
        ELSE
            power := (bits >> 52 & 2047)::int - 1075;
            value := CASE WHEN power = 972 THEN 'null'::jsonb ELSE to_jsonb(
                ((bits & 4503599627370495) + CASE WHEN power > -1075 THEN 4503599627370496 ELSE 0 END)::float8
                * 2::float8 ^ greatest(power, -1000) * 2::float8 ^ least(greatest(power, -1074) + 1000, 0)
                * CASE WHEN bits < 0 THEN -1 ELSE 1 END) END;
        END IF;
        RETURN;
    END IF;
    IF width > 0 THEN
        count := count + bits;
    END IF;
    IF kind IN ('text', 'octets', 'other') THEN
        IF place + count > length(data) THEN
            RAISE EXCEPTION 'SEMQ-1223 the envelope ends too early' USING ERRCODE = 'data_corrupted';
        END IF;
        value := to_jsonb(CASE kind WHEN 'text' THEN convert_from(substring(data FROM place + 1 FOR count::int), 'UTF8')
            ELSE encode(substring(data FROM place + 1 FOR count::int), 'hex') END);
        place := place + count::int;
    ELSIF kind = 'array' THEN
        value := '[]';
        FOR i IN 1 .. count LOOP
            SELECT u.place, u.value INTO place, inner_value FROM semq_unpack(data, place) u;
            value := value || jsonb_build_array(inner_value);
        END LOOP;
    ELSE
        value := '{}';
        FOR i IN 1 .. count LOOP
            SELECT u.place, u.value INTO place, inner_key FROM semq_unpack(data, place) u;
            SELECT u.place, u.value INTO place, inner_value FROM semq_unpack(data, place) u;
            value := value || jsonb_build_object(inner_key #>> '{}', inner_value);
        END LOOP;
    END IF;
END $$;

-- Documents that applications may receive (see revision 0001), with the attributes set by their senders.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, p.digest, b.payload, b.envelope,
    e.attributes ->> 'content_type' AS content_type, e.attributes ->> 'content_encoding' AS content_encoding,
    (e.attributes ->> 'priority')::int AS priority, e.attributes -> 'user_headers' AS headers, e.sender, p.deliveries
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

-- Receive documents in the caller's transaction: no other transaction gets them until it ends. Advisory locks, not row locks: a
-- slow application must not block the node's writer. Row numbers are searched first
-- and documents read one by one, so that the cost depends on the documents received, not on the queue.
CREATE OR REPLACE FUNCTION semq_receive(inbox_user text DEFAULT '', at_most int DEFAULT 1) RETURNS SETOF semq_inbox
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    candidate bigint;
    document semq_inbox;
    taken int := 0;
BEGIN
    FOR candidate IN
        SELECT p.bref FROM tb_0030 p
        WHERE p.target_user = coalesce(semq_receive.inbox_user, '') AND p.app_status = 310 AND p.status = 410
        ORDER BY p.bref
    LOOP
        EXIT WHEN taken >= at_most;
        -- Read under the lock: another transaction may have finished it since the list was made.
        IF pg_try_advisory_xact_lock(hashtextextended('semq_inbox', candidate)) THEN
            SELECT i.* INTO document FROM semq_inbox i WHERE i.bref = candidate;
            IF FOUND THEN
                taken := taken + 1;
                RETURN NEXT document;
            END IF;
        END IF;
    END LOOP;
END $$;

-- Finish a document in the caller's transaction, so that its effects and this mark are committed together. A second
-- transaction that finishes the same document fails (unique_violation, or no_data_found after the node has noted it).
CREATE OR REPLACE FUNCTION semq_done(bref bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO tb_0030_done (bref)
    SELECT p.bref FROM tb_0030 p WHERE p.bref = semq_done.bref AND p.app_status = 310;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no document % is waiting', semq_done.bref USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM pg_notify('semq_done', '');
END $$;

-- Set aside a document that the application cannot process: PARKED, for a person (`semq failed list`), so that it does not block
-- later ones. `why` is written into the ledger. Otherwise like semq_done.
CREATE FUNCTION semq_park(bref bigint, why text DEFAULT '') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO tb_0030_done (bref, parked)
    SELECT p.bref, left(coalesce(semq_park.why, ''), 8000) FROM tb_0030 p
    WHERE p.bref = semq_park.bref AND p.app_status = 310;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no document % is waiting', semq_park.bref USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM pg_notify('semq_done', '');
END $$;

REVOKE ALL ON FUNCTION semq_send, semq_state, semq_status(bigint), semq_status(text), semq_unpack, semq_park FROM PUBLIC;
DO $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT role FROM semq_send_granted LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION semq_send TO %s', one.role);
    END LOOP;
END $$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
