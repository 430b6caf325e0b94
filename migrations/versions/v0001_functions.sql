-- Functions inside Postgres: a guard for the writer, and the functions with which applications send and receive in their own transactions.

-- The writer's second guard: if a change did not find the rows for which it was decided, the whole transaction fails.
CREATE FUNCTION semq_expect(met bigint, expected bigint, sqlstate_otherwise text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF met <> expected THEN
        RAISE EXCEPTION '% rows were met where % were expected', met, expected USING ERRCODE = sqlstate_otherwise;
    END IF;
END $$;

-- Submit a document in the caller's transaction; it is sent if the transaction commits. Returns the number of the submission.
CREATE FUNCTION semq_send(
    target text, payload bytea, app_key text DEFAULT '', save_fwd int DEFAULT 3, ack2 int DEFAULT 1, order_key text DEFAULT '',
    token text DEFAULT NULL, content_type text DEFAULT '', headers jsonb DEFAULT '{}'
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    given bigint;
    fault text := CASE
        WHEN target IS NULL OR target !~ '^([0-9]{1,3}\.)?[A-Za-z0-9_-]{1,64}(/[A-Za-z0-9_-]{1,64})?$'
            THEN 'SEMQ-1101 target: write an institution as 56001, a user of it as 56001/name'
        WHEN payload IS NULL THEN 'SEMQ-1102 payload: there is none'
        WHEN save_fwd IS NULL OR save_fwd NOT IN (1, 2, 3) THEN 'SEMQ-1102 save_fwd: 1, 2 or 3'
        WHEN ack2 IS NULL OR ack2 NOT IN (0, 1) THEN 'SEMQ-1102 ack2: 0 or 1'
        WHEN coalesce(app_key, '') <> '' AND app_key !~ '^[^/]{0,128}/[^/]{0,128}/[^/]{0,128}/.{0,128}$'
            THEN 'SEMQ-1103 app_key: write domain/type/subtype/key'
        WHEN coalesce(order_key, '') <> '' AND save_fwd <> 3 THEN 'SEMQ-1104 order_key: needs save_fwd 3'
        WHEN length(order_key) > 128 THEN 'SEMQ-1102 order_key: at most 128 characters'
        WHEN length(token) > 200 THEN 'SEMQ-1102 token: at most 200 characters'
        WHEN headers IS NOT NULL AND jsonb_typeof(headers) <> 'object' THEN 'SEMQ-1102 headers: a JSON object'
    END;
BEGIN
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%', fault USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO tb_0031_submit AS s (target, payload, app_key, save_fwd, ack2, order_key, token, content_type, headers)
    VALUES (
        semq_send.target, semq_send.payload, coalesce(semq_send.app_key, ''), semq_send.save_fwd, semq_send.ack2,
        coalesce(semq_send.order_key, ''), nullif(semq_send.token, ''), coalesce(semq_send.content_type, ''),
        coalesce(semq_send.headers, '{}')
    ) RETURNING s.number INTO given;
    PERFORM pg_notify('semq_submit', '');  -- only wakes the node early
    RETURN given;
END $$;

-- Documents that applications may receive, in order (PROTOCOL.md section 11): a document is listed when no document before it is
-- missing and all earlier ones with its order key are finished.
CREATE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.store AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, p.digest, b.payload, b.envelope
FROM tb_0030 p
JOIN tb_0030_body b ON b.bref = p.bref
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
-- slow application must not block the node's writer.
CREATE FUNCTION semq_receive(inbox_user text DEFAULT '', at_most int DEFAULT 1) RETURNS SETOF semq_inbox
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    document semq_inbox;
    taken int := 0;
BEGIN
    FOR document IN SELECT i.* FROM semq_inbox i WHERE i.inbox_user = semq_receive.inbox_user ORDER BY i.bref LOOP
        EXIT WHEN taken >= at_most;
        -- Looked at again under the lock: another transaction may have finished it since the list was read.
        IF pg_try_advisory_xact_lock(hashtextextended('semq_inbox', document.bref))
            AND NOT EXISTS (SELECT FROM tb_0030_done d WHERE d.bref = document.bref)
            AND EXISTS (SELECT FROM tb_0030 p WHERE p.bref = document.bref AND p.app_status = 310)
        THEN
            taken := taken + 1;
            RETURN NEXT document;
        END IF;
    END LOOP;
END $$;

-- Finish a document in the caller's transaction, so that its effects and this mark are committed together. A second
-- transaction that finishes the same document fails (unique_violation, or no_data_found after the node has noted it).
CREATE FUNCTION semq_done(bref bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO tb_0030_done (bref)
    SELECT p.bref FROM tb_0030 p WHERE p.bref = semq_done.bref AND p.app_status = 310;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no document % is waiting', semq_done.bref USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM pg_notify('semq_done', '');
END $$;

REVOKE ALL ON FUNCTION semq_send, semq_receive, semq_done FROM PUBLIC;
