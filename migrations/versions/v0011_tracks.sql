ALTER TABLE tb_0031 ADD COLUMN source TEXT DEFAULT '' NOT NULL, ADD COLUMN priority SMALLINT DEFAULT 0 NOT NULL;
ALTER TABLE tb_0030 ADD COLUMN source TEXT DEFAULT '' NOT NULL, ADD COLUMN priority SMALLINT DEFAULT 0 NOT NULL;
UPDATE tb_0031 SET source = split_part(lk0, '.', 1) || '.' || split_part(lk0, '.', 2) WHERE direction = 520;
UPDATE tb_0030 SET source = split_part(lk0, '.', 1) || '.' || split_part(lk0, '.', 2);
CREATE INDEX tb_0031_track ON tb_0031 (dest, source, priority, object_id) WHERE source <> '' OR priority > 0;
CREATE INDEX tb_0030_track ON tb_0030 (target_user, source, priority, bref);
DROP INDEX tb_0030_user;

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
        -- Read under the lock: another transaction may have finished it since it was found.
        IF pg_try_advisory_xact_lock(hashtextextended('semq_inbox', candidate)) THEN
            SELECT i.* INTO document FROM semq_inbox i WHERE i.bref = candidate;
            IF FOUND THEN
                taken := taken + 1;
                RETURN NEXT document;
            ELSE
                place := place - 1;  -- its source still has its turn
            END IF;
        ELSE
            place := place - 1;
        END IF;
    END LOOP;
END $$;
