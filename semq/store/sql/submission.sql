-- Submission of documents by applications, and the state of what was submitted (docs/applications/sql.md). Functions for
-- applications run with the rights of the owner of the tables (SECURITY DEFINER); the functions that they call have the rights
-- of their caller, and so fail if a role calls them itself.

-- Submit a document in the caller's transaction; it is sent if the transaction commits. Returns the number of the submission,
-- for semq_status. What the node would refuse later is refused here, where the caller learns it. The size of headers is limited
-- because the node reads them into its memory. Documents in pieces wait until the year 9000, so no other document may.
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
    -- <!-- attributes -->
    parameters text[] := '{@AppKey,@SaveFwd,@Ack2,@OrderKey,@Token,@ExpiresAt,@Encrypt}';
    permitted text[] := '{@NotBefore,@Reliable,@Fixed}';
    -- <!-- end of attributes -->
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
    PERFORM semq_refuse_open('semq_send');
    IF fault IS NULL THEN
        SELECT format('SEMQ-1102 headers: %s is a parameter of semq_send', min(k)) INTO fault
        FROM jsonb_object_keys(attributes) k
        WHERE k = ANY(parameters)
        HAVING count(*) > 0;
    END IF;
    IF fault IS NULL THEN
        SELECT format('SEMQ-1102 headers: there is no attribute %s for applications', min(k)) INTO fault
        FROM jsonb_object_keys(attributes) k
        WHERE k LIKE '@%' AND k <> ALL(permitted)
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
    PERFORM semq_wake('semq_submit');  -- only wakes the node early
    RETURN given;
END $$;

-- The state of a message of this node: its outcome if it has ended, else its status. Only details of the ledger with an error
-- code are reasons. The last line has the highest number: its time may be earlier, after a clock was set back.
CREATE OR REPLACE FUNCTION semq_state(lk0 text)
RETURNS TABLE (state text, reason_code text, reason_text text, changed_at timestamptz)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    WITH last_line AS (
        SELECT l.event, l.at, substring(l.detail FROM '^SEMQ-[0-9]{4}') AS code, l.detail
        FROM semq_ledger l
        WHERE l.lk0 = $1 AND l.side = 1 AND (l.event BETWEEN 1 AND 10 OR l.event = 16)
        ORDER BY l.number DESC LIMIT 1
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

-- The LK0 under which a message continues: its own, or that of the message by which it was replaced when it was sealed again
-- or requeued (semq.engine.sender.resealing and repetition write the line). A message with a row in tb_0031 has not been replaced.
CREATE OR REPLACE FUNCTION semq_continued_as(lk0 text) RETURNS text
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    WITH RECURSIVE names AS (
        SELECT $1 AS lk0, 0 AS place
        UNION ALL
        SELECT l.lk0, n.place + 1
        FROM names n, LATERAL (
            SELECT substr(l.detail, length('continues as ') + 1) AS lk0
            FROM semq_ledger l
            WHERE l.lk0 = n.lk0 AND l.side = 1 AND l.event = 29 AND starts_with(l.detail, 'continues as ')
            ORDER BY l.number DESC LIMIT 1
        ) l
        WHERE n.place < 1000 AND NOT EXISTS (
            SELECT FROM tb_0031 q WHERE q.object_id = split_part(n.lk0, '.', 6)::bigint AND q.lk0 = n.lk0
        )
    )
    SELECT n.lk0 FROM names n ORDER BY n.place DESC LIMIT 1
$$;

-- The state of a message under any of its names, or of a document to a group: that of the member that is furthest behind. A
-- group is searched only for a name that is not that of a message, because the search reads all partitions of the ledger.
CREATE OR REPLACE FUNCTION semq_state_of(lk0 text)
RETURNS TABLE (state text, reason_code text, reason_text text, changed_at timestamptz)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    WITH message AS MATERIALIZED (
        SELECT d.* FROM semq_state(semq_continued_as($1)) d
    ), submission AS (
        SELECT
            regexp_replace($1, '[^.]*$', '') AS origin, split_part($1, '.', 6)::bigint AS id,
            substring(l.detail FROM 'member 1 of ([0-9]+) of ')::int AS members
        FROM semq_ledger l
        WHERE NOT EXISTS (SELECT FROM message)
            AND split_part(l.lk0, '.', 6) = (split_part($1, '.', 6)::bigint + 1)::text
            AND (l.event IN (1, 20) OR l.side = 2 AND l.event IN (3, 4, 10, 16))  -- as in the index semq_ledger_record
            AND l.event = 1 AND l.side = 1 AND position('member 1 of ' IN l.detail) > 0
            AND position(format(' of %s to ', $1) IN l.detail) > 0
        LIMIT 1
    ), members AS (
        SELECT d.*, n
        FROM submission s, generate_series(1, s.members) n, semq_state(semq_continued_as(s.origin || (s.id + n))) d
    )
    SELECT m.* FROM message m
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

-- The state of a submission; no row if the node knows no submission with this number (any more). A submission that was tried
-- has its own reason to wait; later ones to the same target wait for it. A document whose pieces are sent first is IN_PIECES; the
-- time is AFTER_PIECES_MS of semq.umx_t.pieces.
CREATE OR REPLACE FUNCTION semq_status(submission bigint) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT semq_refuse_open('semq_status');
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

-- The same by token, also for documents submitted by AMQP: the document if it exists, else the last submission.
CREATE OR REPLACE FUNCTION semq_status(token text) RETURNS TABLE (
    number bigint, lk0 text, state text, reason_code text, reason_text text, changed_at timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    SELECT semq_refuse_open('semq_status');
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

REVOKE ALL ON FUNCTION semq_send, semq_state, semq_continued_as, semq_state_of, semq_status(bigint), semq_status(text) FROM PUBLIC;
