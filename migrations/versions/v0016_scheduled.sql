-- Documents that wait for a time (@NotBefore). Those scheduled by SQL have the columns of all submissions; those scheduled by a
-- node have their LK0 as name, the record id as number, and their attributes in the envelope.
ALTER TABLE tb_0031_submit
    ADD COLUMN not_before TIMESTAMP WITH TIME ZONE,
    ADD COLUMN envelope BYTEA;

-- Finds submissions that may be accepted or are due without reading those that wait for their time.
DROP INDEX tb_0031_submit_open;
CREATE INDEX tb_0031_submit_open ON tb_0031_submit (number) WHERE reason_code IS NULL AND not_before IS NULL;
CREATE INDEX tb_0031_submit_due ON tb_0031_submit (not_before, number) WHERE not_before IS NOT NULL;

-- The search path of v0007: create and find names in the schema of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- Submit a document in the caller's transaction; it is sent if the transaction commits, not before the time in its headers.
-- Returns the number of the submission, for semq_status.
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
            WHEN (attributes ->> '@NotBefore')::numeric NOT BETWEEN 0 AND 253402300799999
                THEN 'SEMQ-1102 headers: @NotBefore is in milliseconds since 1970, up to the year 9999'
            WHEN semq_send.expires_at <= begins THEN 'SEMQ-1104 expires_at: the document would expire before @NotBefore'
        END;
    ELSIF fault IS NULL AND coalesce(jsonb_typeof(attributes -> '@NotBefore'), 'null') <> 'null' THEN
        fault := 'SEMQ-1102 headers: @NotBefore is in milliseconds since 1970, up to the year 9999';
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
    FROM tb_0031_taken t, semq_state(t.lk0) d
    WHERE t.number = $1
$$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
