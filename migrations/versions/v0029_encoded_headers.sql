-- The search path of v0007: these functions run with the rights of the owner of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- The headers of an application in the form of AMQP (semq.amqp.wire): name, letter and value of each. MessagePack has the same
-- numbers with other letters, so semq_unpack reads them. Decimals are texts, timestamps numbers, bytes hexadecimal texts, and so
-- are texts that are not UTF-8. Without names: the members of an array.
CREATE FUNCTION semq_fields(data bytea, named boolean DEFAULT true) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
DECLARE
    place int := 0;
    letter text;
    width int;
    names text[] := '{}';
    items jsonb[] := '{}';
    number int := 0;
    part bytea;
    value jsonb;
BEGIN
    WHILE place < length(data) LOOP
        number := number + 1;
        IF named THEN
            width := get_byte(data, place);
            names[number] := convert_from(substring(data FROM place + 2 FOR width), 'UTF8');
            place := place + 1 + width;
        END IF;
        letter := chr(get_byte(data, place));
        place := place + 1;
        IF letter IN ('S', 'x', 'F', 'A') THEN
            width := ('x' || encode(substring(data FROM place + 1 FOR 4), 'hex'))::bit(32)::int;
            place := place + 4;
        ELSE
            width := CASE letter
                WHEN 't' THEN 1 WHEN 'b' THEN 1 WHEN 'B' THEN 1 WHEN 's' THEN 2 WHEN 'u' THEN 2 WHEN 'I' THEN 4 WHEN 'i' THEN 4
                WHEN 'f' THEN 4 WHEN 'l' THEN 8 WHEN 'L' THEN 8 WHEN 'd' THEN 8 WHEN 'T' THEN 8 WHEN 'D' THEN 5 WHEN 'V' THEN 0
            END;
        END IF;
        IF width IS NULL OR width < 0 OR place + width > length(data) THEN
            RAISE EXCEPTION 'SEMQ-1223 a header cannot be read' USING ERRCODE = 'data_corrupted';
        END IF;
        part := substring(data FROM place + 1 FOR width);
        place := place + width;
        CASE letter
            WHEN 'S' THEN value := to_jsonb(semq_text(part));
            WHEN 'x' THEN value := to_jsonb(encode(part, 'hex'));
            WHEN 't' THEN value := to_jsonb(get_byte(part, 0) <> 0);
            WHEN 'V' THEN value := 'null';
            WHEN 'F' THEN value := semq_fields(part);
            WHEN 'A' THEN value := semq_fields(part, false);
            WHEN 'D' THEN value := to_jsonb((('x' || encode(substring(part FROM 2), 'hex'))::bit(32)::int
                * ('1e-' || get_byte(part, 0))::numeric)::text);
            ELSE SELECT u.value INTO value FROM semq_unpack(decode(CASE letter
                WHEN 'b' THEN 'd0' WHEN 'B' THEN 'cc' WHEN 's' THEN 'd1' WHEN 'u' THEN 'cd' WHEN 'I' THEN 'd2' WHEN 'i' THEN 'ce'
                WHEN 'f' THEN 'ca' WHEN 'd' THEN 'cb' WHEN 'T' THEN 'cf' ELSE 'd3' END, 'hex') || part) u;
        END CASE;
        items[number] := value;
    END LOOP;
    IF named THEN
        RETURN coalesce((SELECT jsonb_object_agg(m.name, m.item) FROM unnest(names, items) AS m (name, item)), '{}');
    END IF;
    RETURN to_jsonb(items);
END $$;

-- The text of bytes; hexadecimal if they are not UTF-8. Zero characters become U+FFFD, as in semq_unpack.
CREATE FUNCTION semq_text(part bytea) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path FROM CURRENT AS $$
BEGIN
    RETURN convert_from(CASE WHEN position('\x00'::bytea IN part) = 0 THEN part ELSE
        decode(replace(regexp_replace(encode(part, 'hex'), '(..)', '\1 ', 'g'), '00 ', 'efbfbd '), 'hex') END, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire THEN
    RETURN encode(part, 'hex');
END $$;

-- The headers in an unpacked envelope, whose bytes are hexadecimal.
CREATE FUNCTION semq_headers(stored jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE SET search_path FROM CURRENT AS $$
    SELECT CASE jsonb_typeof(stored) WHEN 'string' THEN semq_fields(decode(stored #>> '{}', 'hex')) ELSE stored END
$$;
REVOKE ALL ON FUNCTION semq_fields, semq_text, semq_headers FROM PUBLIC;

-- The view of v0028. Envelopes of earlier versions have their headers as a map.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, decode(e.digest, 'hex') AS digest, b.payload, b.envelope,
    e.attributes ->> 'content_type' AS content_type, e.attributes ->> 'content_encoding' AS content_encoding,
    (e.attributes ->> 'priority')::int AS priority, semq_headers(e.attributes -> 'user_headers') AS headers, e.sender, p.deliveries,
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

-- semq_send of v0028. Integers that AMQP cannot carry are refused, and times that can only be in seconds.
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
        WHEN jsonb_path_exists(
            semq_send.headers,
            '$.** ? (@.type() == "number" && (@ > 9223372036854775807 || @ < -9223372036854775808))'
        ) THEN 'SEMQ-1102 headers: AMQP has integers from -2^63 to 2^63 - 1; write larger numbers as texts'
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
            WHEN (attributes ->> '@NotBefore')::numeric > 0 AND (attributes ->> '@NotBefore')::numeric < 100000000000
                THEN 'SEMQ-1102 headers: @NotBefore is in milliseconds since 1970; this number looks like seconds'
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
