-- The search path of v0007: these functions run with the rights of the owner of the tables.
SELECT set_config('semq.path_before', current_setting('search_path'), true),
    set_config('search_path', format('%I, pg_temp', current_schema()), true);

-- Refuse the caller if every role may call a function, as after a restore without rights (pg_restore --no-acl), unless its
-- session belongs to the owner, or to a role to which the function was granted.
CREATE FUNCTION semq_refuse_open(called text) RETURNS void
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
        WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = semq_refuse_open.called AND a.grantee = 0
            AND NOT pg_has_role(session_user, p.proowner, 'MEMBER')
            AND NOT EXISTS (
                SELECT FROM aclexplode(p.proacl) g WHERE g.grantee <> 0 AND pg_has_role(session_user, g.grantee, 'MEMBER')
            )
    ) THEN
        RAISE EXCEPTION 'SEMQ-3025 % was not granted to %: semq db grant', semq_refuse_open.called, session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END $$;

-- Wake the node at the commit. NOTIFY makes the commits of all transactions with a notification on this server serial, so only one
-- transaction at a time has one. The node reads again soon after each notification, and finds the rows of the others.
CREATE FUNCTION semq_wake(channel text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_try_advisory_xact_lock(hashtextextended(semq_wake.channel, 0)) THEN
        PERFORM pg_notify(semq_wake.channel, '');
    END IF;
END $$;
REVOKE ALL ON FUNCTION semq_refuse_open, semq_wake FROM PUBLIC;

DO $do$
DECLARE
    one record;
    body text;
BEGIN
    FOR one IN
        SELECT p.proname, p.prosrc, pg_get_functiondef(p.oid) AS definition, l.lanname
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
        WHERE p.pronamespace = current_schema()::regnamespace
            AND p.proname IN ('semq_send', 'semq_status', 'semq_receive', 'semq_piece', 'semq_done', 'semq_park')
    LOOP
        IF one.lanname = 'sql' THEN
            body := format(E'\n    SELECT semq_refuse_open(%L);', one.proname) || one.prosrc;
        ELSE
            body := regexp_replace(
                one.prosrc, E'\nBEGIN\n', format(E'\nBEGIN\n    PERFORM semq_refuse_open(%L);\n', one.proname)
            );
        END IF;
        body := replace(replace(body,
            $$pg_notify('semq_submit', '')$$, $$semq_wake('semq_submit')$$), $$pg_notify('semq_done', '')$$, $$semq_wake('semq_done')$$);
        EXECUTE replace(one.definition, one.prosrc, body);
    END LOOP;
END $do$;
-- The functions that these call have the rights of their caller, and so fail if a role calls them itself.
DO $do$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.prosecdef AND p.prosrc NOT LIKE '%semq_refuse_open%'
    LOOP
        EXECUTE format('ALTER FUNCTION %s SECURITY INVOKER', one.name);
    END LOOP;
END $do$;

-- Rows of this partition are deleted, which a publication FOR ALL TABLES permits only with an identity of the rows.
ALTER TABLE semq_ledger_other REPLICA IDENTITY FULL;

-- Advisory locks of other roles could fill the lock table of the server, or hide documents from `semq_receive`. Only a superuser
-- can revoke this right; the requirements of a node (semq.store.postgres.conditions.requirements) name it if it was not revoked.
DO $do$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname LIKE 'pg\_%advisory%'
            AND pg_has_role(current_user, p.proowner, 'USAGE')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION pg_catalog.%s TO CURRENT_USER', one.name);
        EXECUTE format('REVOKE EXECUTE ON FUNCTION pg_catalog.%s FROM PUBLIC', one.name);
    END LOOP;
END $do$;
SELECT set_config('search_path', current_setting('semq.path_before'), true);
