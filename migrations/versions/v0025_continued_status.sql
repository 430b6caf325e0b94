-- The search path of v0007: create and find names in the schema of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- The LK0 under which a message continues: its own, or that of the message by which it was replaced when it was sealed again
-- (semq.engine.sender.resealing writes the line). A message with a row in tb_0031 has not been replaced.
CREATE FUNCTION semq_continued_as(lk0 text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH RECURSIVE names AS (
        SELECT $1 AS lk0, 0 AS place
        UNION ALL
        SELECT l.lk0, n.place + 1
        FROM names n, LATERAL (
            SELECT substr(l.detail, length('continues as ') + 1) AS lk0
            FROM semq_ledger l
            WHERE l.lk0 = n.lk0 AND l.side = 1 AND l.event = 29 AND starts_with(l.detail, 'continues as ')
            ORDER BY l.at DESC LIMIT 1
        ) l
        WHERE n.place < 1000 AND NOT EXISTS (
            SELECT FROM tb_0031 q WHERE q.object_id = split_part(n.lk0, '.', 6)::bigint AND q.lk0 = n.lk0
        )
    )
    SELECT n.lk0 FROM names n ORDER BY n.place DESC LIMIT 1
$$;
REVOKE ALL ON FUNCTION semq_continued_as FROM PUBLIC;

-- As in v0022, with two changes: messages that were sealed again are followed, and a group is searched only for a name that is
-- not that of a message, because the search reads all partitions of the ledger.
CREATE OR REPLACE FUNCTION semq_state_of(lk0 text)
RETURNS TABLE (state text, reason_code text, reason_text text, changed_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
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
SELECT set_config('search_path', current_setting('semq.path_before'), true);
