-- Receipt of documents by applications (docs/applications/sql.md). Rights as in submission.sql.

-- The documents that applications may receive, without their envelopes, so that finding them reads no body: in the order of
-- their key, and after the document before them in the stream.
CREATE OR REPLACE VIEW semq_inbox_rows AS
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

-- The documents that applications may receive. `submitted_at`, which other nodes state, is null after 9999-12-30: a time that
-- Postgres, or a client in its own time zone, cannot represent would make every receive fail. OFFSET 0: each envelope is read once.
CREATE OR REPLACE VIEW semq_inbox AS
SELECT
    p.bref, p.lk0, p.source || coalesce('/' || nullif(e.envelope ->> 'sender', ''), '') AS source, p.target_user AS inbox_user, p.app_domain, p.app_type, p.app_subtype, p.app_key,
    p.order_key, p.received_at, p.size, decode(coalesce(e.envelope ->> 'digest', ''), 'base64') AS digest, b.payload, b.envelope,
    coalesce(e.attributes ->> 'content_type', '') AS content_type,
    coalesce(e.attributes ->> 'content_encoding', '') AS content_encoding,
    coalesce((e.attributes ->> 'priority')::int, 0) AS priority,
    semq_fields(decode(coalesce(e.attributes ->> 'user_headers', ''), 'base64')) AS headers,
    coalesce(e.envelope ->> 'sender', '') AS sender, p.deliveries, p.proved, e.attributes ->> 'pieces' AS document,
    NULL::bigint[] AS pieces,
    CASE WHEN (e.envelope ->> 'submitted_at')::numeric BETWEEN 1 AND 253402214399999
        THEN to_timestamp((e.envelope ->> 'submitted_at')::numeric / 1000.0) END AS submitted_at
FROM semq_inbox_rows r
JOIN tb_0030 p ON p.bref = r.bref
JOIN tb_0030_body b ON b.bref = r.bref
CROSS JOIN LATERAL (SELECT j.envelope, j.envelope -> 'attributes' AS attributes
    FROM (SELECT semq_envelope(b.envelope) AS envelope OFFSET 0) j) e;

-- The pieces of a document that are here, also repeated ones. Their digests are those of the envelopes, because those of the rows
-- are salted if the document was sealed. Only envelopes that contain the name are read: as far as JSON does not escape it.
CREATE OR REPLACE FUNCTION semq_pieces_of(source text, document text) RETURNS TABLE (
    bref bigint, number int, size bigint, digest bytea
)
LANGUAGE sql STABLE SET search_path FROM CURRENT AS $$
    SELECT p.bref, n.number::int, p.size, decode(coalesce(e.envelope ->> 'digest', ''), 'base64')
    FROM tb_0030 p
    JOIN tb_0030_body b ON b.bref = p.bref
    CROSS JOIN LATERAL (
        SELECT CASE WHEN position(convert_to('"' || substring($2 FROM '^[ !#-\[\]-~]*'), 'UTF8') IN b.envelope) > 0
            THEN semq_envelope(b.envelope) END AS envelope OFFSET 0
    ) e
    CROSS JOIN LATERAL (
        SELECT substring(e.envelope -> 'attributes' ->> 'pieces' FROM length($2) + 2) AS number
        WHERE starts_with(e.envelope -> 'attributes' ->> 'pieces', $2 || '/')
    ) n
    WHERE p.target_user = '_pieces' AND p.source = $1 AND p.status = 410 AND p.app_status = 310
        AND n.number ~ '^[0-9]{1,8}$'
$$;

-- A document with the numbers of its pieces instead of a payload; it is parked, and returned unchanged, if they are not all
-- here. The node ignores unknown fields of a manifest, so these may have values that jsonb cannot represent.
CREATE OR REPLACE FUNCTION semq_joined(given semq_inbox) RETURNS semq_inbox
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
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

-- Lock documents of an inbox for the caller's transaction, and return them: sources take turns, higher priorities first. Rows
-- that another transaction has locked are skipped. The locks are advisory: a lock of a row would block the node's writer
-- behind a slow application.
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
    PERFORM semq_refuse_open('semq_receive');
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

-- The bytes of one piece, by a number in the column `pieces` of semq_receive.
CREATE OR REPLACE FUNCTION semq_piece(piece bigint) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    content bytea;
BEGIN
    PERFORM semq_refuse_open('semq_piece');
    SELECT b.payload INTO content FROM tb_0030 p JOIN tb_0030_body b ON b.bref = p.bref
    WHERE p.bref = piece AND p.target_user = '_pieces' AND p.status = 410;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no piece % is waiting', piece USING ERRCODE = 'no_data_found';
    END IF;
    RETURN content;
END $$;

-- Finish a document in the caller's transaction, so that its effects and this mark are committed together. A second
-- transaction that finishes the same document fails (unique_violation, or no_data_found after the node has noted it).
CREATE OR REPLACE FUNCTION semq_done(bref bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    node text;
    document text;
BEGIN
    PERFORM semq_refuse_open('semq_done');
    INSERT INTO tb_0030_done (bref)
    SELECT p.bref FROM tb_0030 p WHERE p.bref = semq_done.bref AND p.app_status = 310 AND p.target_user <> '_pieces';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no document % is waiting', semq_done.bref USING ERRCODE = 'no_data_found';
    END IF;
    -- A manifest is small, and the envelopes of most other documents need not be read.
    SELECT p.source, semq_envelope(b.envelope) -> 'attributes' ->> 'pieces' INTO node, document
    FROM tb_0030 p JOIN tb_0030_body b ON b.bref = p.bref
    WHERE p.bref = semq_done.bref AND p.size <= 4096 AND position('pieces'::bytea IN b.envelope) > 0;
    IF document IS NOT NULL THEN
        INSERT INTO tb_0030_done (bref) SELECT f.bref FROM semq_pieces_of(node, document) f ON CONFLICT DO NOTHING;
    END IF;
    PERFORM semq_wake('semq_done');
END $$;

-- Set aside a document that the application cannot process: PARKED, for a person (`semq failed list`), so that it does not block
-- later ones. `why` is written into the ledger. Otherwise like semq_done; a piece is no document.
CREATE OR REPLACE FUNCTION semq_park(bref bigint, why text DEFAULT '') RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM semq_refuse_open('semq_park');
    INSERT INTO tb_0030_done (bref, parked)
    SELECT p.bref, left(coalesce(semq_park.why, ''), 8000) FROM tb_0030 p
    WHERE p.bref = semq_park.bref AND p.app_status = 310 AND p.target_user <> '_pieces';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'SEMQ-3021 no document % is waiting', semq_park.bref USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM semq_wake('semq_done');
END $$;

REVOKE ALL ON FUNCTION semq_pieces_of, semq_joined, semq_receive, semq_piece, semq_done, semq_park FROM PUBLIC;
