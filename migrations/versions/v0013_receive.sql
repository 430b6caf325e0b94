-- The search path of v0007: revision 0011 omitted it, so a caller's temporary table could replace a table of the node.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- Receive documents in the caller's transaction: no other transaction gets them until it ends. Advisory locks, not row locks: a
-- slow application must not block the node's writer. Sources take turns, in an order that changes with each call; documents of
-- one source come by priority. Each candidate costs one access to the index.
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
        may_give := EXISTS (SELECT FROM semq_inbox i WHERE i.bref = candidate);
        IF may_give THEN
            may_give := pg_try_advisory_xact_lock(hashtextextended('semq_inbox', candidate));
        END IF;
        IF may_give THEN
            -- Read again under the lock: another transaction may have finished it since it was found.
            SELECT i.* INTO document FROM semq_inbox i WHERE i.bref = candidate;
            may_give := FOUND;
        END IF;
        IF may_give THEN
            taken := taken + 1;
            RETURN NEXT document;
        ELSE
            place := place - 1;  -- its source still has its turn
        END IF;
    END LOOP;
END $$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
