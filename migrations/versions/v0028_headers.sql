-- The search path of v0007: these functions run with the rights of the owner of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- semq_unpack of v0007. Long arrays and maps are built at once, because appending to a jsonb copies all of it. Zero characters,
-- which Postgres cannot store in texts, become U+FFFD. Decimals are texts, timestamps numbers (semq.engine.stored_envelopes).
CREATE OR REPLACE FUNCTION semq_unpack(data bytea, INOUT place int DEFAULT 0, OUT value jsonb)
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    head int := get_byte(data, place);
    kind text;
    width int := 0;
    count bigint := 0;
    part bytea;
    names text[] := '{}';
    items jsonb[] := '{}';
    inner_value jsonb;
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
        WHEN head = 215 AND get_byte(data, place) = 2 THEN kind := 'unsigned'; width := 8; place := place + 1;  -- a timestamp
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
        part := substring(data FROM place + 1 FOR count::int);
        IF kind = 'other' AND get_byte(part, 0) = 1 THEN  -- a decimal
            kind := 'text';
            part := substring(part FROM 2);
        END IF;
        IF kind = 'text' AND position('\x00'::bytea IN part) > 0 THEN
            part := decode(replace(regexp_replace(encode(part, 'hex'), '(..)', '\1 ', 'g'), '00 ', 'efbfbd '), 'hex');
        END IF;
        value := to_jsonb(CASE kind WHEN 'text' THEN convert_from(part, 'UTF8') ELSE encode(part, 'hex') END);
        place := place + count::int;
        RETURN;
    END IF;
    FOR i IN 1 .. count LOOP
        IF kind = 'map' THEN
            SELECT u.place, u.value INTO place, inner_value FROM semq_unpack(data, place) u;
            names[i] := inner_value #>> '{}';
        END IF;
        SELECT u.place, u.value INTO place, inner_value FROM semq_unpack(data, place) u;
        items[i] := inner_value;
    END LOOP;
    IF kind = 'array' THEN
        value := to_jsonb(items);
    ELSE
        value := coalesce((SELECT jsonb_object_agg(m.name, m.item) FROM unnest(names, items) AS m (name, item)), '{}');
    END IF;
END $$;

-- The documents that applications may receive, without their envelopes.
CREATE VIEW semq_inbox_rows AS
SELECT p.bref FROM tb_0030 p
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

-- The view of v0027. Concatenation makes a copy of the envelope that is not compressed, so that not each access to a byte
-- decompresses it.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, decode(e.digest, 'hex') AS digest, b.payload, b.envelope,
    e.attributes ->> 'content_type' AS content_type, e.attributes ->> 'content_encoding' AS content_encoding,
    (e.attributes ->> 'priority')::int AS priority, e.attributes -> 'user_headers' AS headers, e.sender, p.deliveries,
    p.proved,
    nullif(e.attributes ->> 'pieces', '') AS document, NULL::bigint[] AS pieces,
    CASE WHEN e.submitted_at BETWEEN 1 AND 253402214399999 THEN to_timestamp(e.submitted_at / 1000.0) END AS submitted_at
FROM semq_inbox_rows r
JOIN tb_0030 p ON p.bref = r.bref
JOIN tb_0030_body b ON b.bref = r.bref
CROSS JOIN LATERAL (
    SELECT u.value -> 'attributes' AS attributes, u.value ->> 'sender' AS sender, u.value ->> 'digest' AS digest,
        (u.value ->> 'submitted_at')::numeric AS submitted_at
    FROM semq_unpack(b.envelope || ''::bytea) u OFFSET 0
) e;

-- semq_joined of v0019. The node ignores unknown fields of a manifest, so these may have values that jsonb cannot represent.
CREATE OR REPLACE FUNCTION semq_joined(given semq_inbox) RETURNS semq_inbox
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    manifest jsonb;
    piece_bytes bigint;
    whole bigint;
    expected bigint;
    node text := (SELECT p.source FROM tb_0030 p WHERE p.bref = given.bref);
    rows bigint[];
    digests bytea;
BEGIN
    BEGIN
        manifest := convert_from(given.payload, 'UTF8')::jsonb;
        piece_bytes := (manifest ->> 'piece_bytes')::bigint;
        whole := (manifest ->> 'size')::bigint;
        expected := (whole + piece_bytes - 1) / piece_bytes;
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        PERFORM semq_park(given.bref, 'SEMQ-1116 The manifest of the document cannot be read: ' || left(sqlerrm, 200));
        RETURN given;
    END;
    SELECT array_agg(o.bref ORDER BY o.number), string_agg(o.digest, ''::bytea ORDER BY o.number) INTO rows, digests
    FROM (
        SELECT DISTINCT ON (f.number) f.number, f.bref, f.digest FROM semq_pieces_of(node, given.document) f
        WHERE f.number < expected AND f.size = least(piece_bytes, whole - f.number * piece_bytes)
        ORDER BY f.number, f.bref
    ) o;
    IF coalesce(cardinality(rows), 0) <> expected OR encode(sha256(digests), 'hex') <> manifest ->> 'pieces' THEN
        PERFORM semq_park(given.bref, 'SEMQ-1232 Not all pieces of the document are here; it has '
            || coalesce(cardinality(rows), 0) || ' of ' || expected || '.');
        RETURN given;
    END IF;
    given.payload := NULL;
    given.size := whole;
    given.digest := decode(manifest ->> 'digest', 'hex');
    given.pieces := rows;
    RETURN given;
END $$;

-- semq_receive of v0019. The envelope of a document that cannot be given is not unpacked.
CREATE OR REPLACE FUNCTION semq_receive(inbox_user text DEFAULT '', at_most int DEFAULT 1) RETURNS SETOF semq_inbox
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    sources text[];
    levels smallint[];
    passed bigint[];
    place int := 0;
    candidate bigint;
    document semq_inbox;
    may_give boolean;
    taken int := 0;
BEGIN
    inbox_user := coalesce(inbox_user, '');
    IF inbox_user = '_pieces' THEN
        RAISE EXCEPTION 'SEMQ-1101 inbox_user: pieces are read with their document: semq_piece'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    WITH RECURSIVE one AS (
        (SELECT p.source FROM tb_0030 p WHERE p.target_user = semq_receive.inbox_user ORDER BY p.source LIMIT 1)
        UNION ALL
        SELECT next.source FROM one CROSS JOIN LATERAL (
            SELECT p.source FROM tb_0030 p
            WHERE p.target_user = semq_receive.inbox_user AND p.source > one.source ORDER BY p.source LIMIT 1
        ) next
    )
    SELECT array_agg(one.source ORDER BY random()) INTO sources FROM one;
    levels := array_fill(10::smallint, ARRAY[coalesce(cardinality(sources), 0)]);
    passed := array_fill(NULL::bigint, ARRAY[coalesce(cardinality(sources), 0)]);
    WHILE taken < at_most AND cardinality(sources) > 0 LOOP
        place := place % cardinality(sources) + 1;
        candidate := NULL;
        IF passed[place] IS NOT NULL THEN
            SELECT p.bref INTO candidate FROM tb_0030 p
            WHERE p.target_user = semq_receive.inbox_user AND p.app_status = 310 AND p.status = 410
                -- As ranges: with equalities the order would be that of the primary key too, over the rows of all sources.
                AND (p.source, p.priority, p.bref) > (sources[place], levels[place], passed[place])
                AND (p.source, p.priority, p.bref) < (sources[place], levels[place], 9223372036854775807)
            ORDER BY p.source, p.priority, p.bref LIMIT 1;
        END IF;
        IF candidate IS NULL THEN
            levels[place] := (
                SELECT p.priority FROM tb_0030 p
                WHERE p.target_user = semq_receive.inbox_user
                    AND (p.source, p.priority) >= (sources[place], 0::smallint)
                    AND (p.source, p.priority) < (sources[place], levels[place])
                ORDER BY p.source DESC, p.priority DESC LIMIT 1
            );
            passed[place] := -1;
            IF levels[place] IS NULL THEN
                sources := sources[:place - 1] || sources[place + 1:];
                levels := levels[:place - 1] || levels[place + 1:];
                passed := passed[:place - 1] || passed[place + 1:];
            END IF;
            place := place - 1;
            CONTINUE;
        END IF;
        passed[place] := candidate;
        -- Only what can be given is locked: rows that wait behind others would fill the lock table of the server.
        may_give := EXISTS (SELECT FROM semq_inbox_rows i WHERE i.bref = candidate);
        IF may_give THEN
            may_give := pg_try_advisory_xact_lock(hashtextextended('semq_inbox', candidate));
        END IF;
        IF may_give THEN
            -- Read again under the lock: another transaction may have finished it since it was found.
            SELECT i.* INTO document FROM semq_inbox i WHERE i.bref = candidate;
            may_give := FOUND;
        END IF;
        IF may_give AND document.document IS NOT NULL THEN
            document := semq_joined(document);
            may_give := document.pieces IS NOT NULL;  -- otherwise it is parked
        END IF;
        IF may_give THEN
            taken := taken + 1;
            RETURN NEXT document;
        ELSE
            place := place - 1;  -- its source still has its turn
        END IF;
    END LOOP;
END $$;

-- semq_done of v0019, with a copy of the envelope as above.
CREATE OR REPLACE FUNCTION semq_done(bref bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    node text;
    document text;
BEGIN
    INSERT INTO tb_0030_done (bref)
    SELECT p.bref FROM tb_0030 p WHERE p.bref = semq_done.bref AND p.app_status = 310 AND p.target_user <> '_pieces';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no document % is waiting', semq_done.bref USING ERRCODE = 'no_data_found';
    END IF;
    -- A manifest is small, and the envelopes of most other documents need not be read.
    SELECT p.source, nullif(u.value -> 'attributes' ->> 'pieces', '') INTO node, document
    FROM tb_0030 p JOIN tb_0030_body b ON b.bref = p.bref CROSS JOIN LATERAL semq_unpack(b.envelope || ''::bytea) u
    WHERE p.bref = semq_done.bref AND p.size <= 4096 AND position('pieces'::bytea IN b.envelope) > 0;
    IF document IS NOT NULL THEN
        INSERT INTO tb_0030_done (bref) SELECT f.bref FROM semq_pieces_of(node, document) f ON CONFLICT DO NOTHING;
    END IF;
    PERFORM pg_notify('semq_done', '');
END $$;

-- semq_park of v0007. As in semq_done, a piece is no document.
CREATE OR REPLACE FUNCTION semq_park(bref bigint, why text DEFAULT '') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO tb_0030_done (bref, parked)
    SELECT p.bref, left(coalesce(semq_park.why, ''), 8000) FROM tb_0030 p
    WHERE p.bref = semq_park.bref AND p.app_status = 310 AND p.target_user <> '_pieces';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no document % is waiting', semq_park.bref USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM pg_notify('semq_done', '');
END $$;

-- semq_send of v0016, with a limit of the headers, which the node reads into its memory. Documents in pieces wait until the
-- year 9000.
CREATE OR REPLACE FUNCTION semq_send(
    target text, payload bytea, app_key text DEFAULT '', save_fwd int DEFAULT 3, ack2 int DEFAULT 1, order_key text DEFAULT '',
    token text DEFAULT NULL, content_type text DEFAULT '', headers jsonb DEFAULT '{}', encrypt boolean DEFAULT false,
    expires_at timestamptz DEFAULT NULL, priority int DEFAULT 0, content_encoding text DEFAULT ''
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    given bigint;
    begins timestamptz;
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
        WHEN octet_length(semq_send.headers::text) > 262144 THEN 'SEMQ-1105 headers: at most 256 KiB as JSON'
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
        WHERE k LIKE '@%' AND k NOT IN ('@Reliable', '@Fixed', '@NotBefore')
        HAVING count(*) > 0;
    END IF;
    IF fault IS NULL AND jsonb_typeof(attributes -> '@NotBefore') = 'number' THEN
        begins := to_timestamp(least((attributes ->> '@NotBefore')::numeric, 253402300799999) / 1000.0);
        fault := CASE
            WHEN (attributes ->> '@NotBefore')::numeric NOT BETWEEN 0 AND 221845391999999
                THEN 'SEMQ-1102 headers: @NotBefore is in milliseconds since 1970, before the year 9000'
            WHEN semq_send.expires_at <= begins THEN 'SEMQ-1104 expires_at: the document would expire before @NotBefore'
        END;
    ELSIF fault IS NULL AND coalesce(jsonb_typeof(attributes -> '@NotBefore'), 'null') <> 'null' THEN
        fault := 'SEMQ-1102 headers: @NotBefore is in milliseconds since 1970, before the year 9000';
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
        target, payload, app_key, save_fwd, ack2, order_key, token, content_type, headers, content_encoding, priority,
        not_before
    ) VALUES (
        semq_send.target, semq_send.payload, coalesce(semq_send.app_key, ''), semq_send.save_fwd, semq_send.ack2,
        coalesce(semq_send.order_key, ''), nullif(semq_send.token, ''), coalesce(semq_send.content_type, ''),
        attributes - '@NotBefore',
        coalesce(semq_send.content_encoding, ''), coalesce(semq_send.priority, 0),
        CASE WHEN begins > clock_timestamp() THEN begins END
    ) RETURNING s.number INTO given;
    PERFORM pg_notify('semq_submit', '');  -- only wakes the node early
    RETURN given;
END $$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
