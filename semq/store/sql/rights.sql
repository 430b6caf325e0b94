-- Rights of applications, and the signal by which their calls wake the node.

-- Refuse the caller if every role may call a function, as after a restore without rights (pg_restore --no-acl), unless its
-- session belongs to the owner, or to a role to which the function was granted. Each function for applications calls it first.
CREATE OR REPLACE FUNCTION semq_refuse_open(called text) RETURNS void
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

-- Wake the node at the commit. NOTIFY makes the commits of all transactions with a notification on this server serial, so
-- only one transaction at a time has one. The node reads again soon after each notification, and finds the rows of the others.
CREATE OR REPLACE FUNCTION semq_wake(channel text) RETURNS void
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF pg_try_advisory_xact_lock(hashtextextended(semq_wake.channel, 0)) THEN
        PERFORM pg_notify(semq_wake.channel, '');
    END IF;
END $$;

REVOKE ALL ON FUNCTION semq_refuse_open, semq_wake FROM PUBLIC;

-- Advisory locks of other roles could fill the lock table of the server, or hide documents from semq_receive. Only a superuser
-- can revoke this right; the requirements of a node (semq.store.postgres.conditions.requirements) name it if it was not revoked.
-- The node, which may have another role than the superuser who upgrades its tables, needs these locks.
DO $do$
DECLARE
    one record;
    owner regrole := (SELECT c.relowner FROM pg_class c WHERE c.oid = 'semq_meta'::regclass);
BEGIN
    FOR one IN
        SELECT p.oid::regprocedure AS name FROM pg_proc p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname LIKE 'pg\_%advisory%'
            AND pg_has_role(current_user, p.proowner, 'USAGE')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION pg_catalog.%s TO CURRENT_USER, %s', one.name, owner);
        EXECUTE format('REVOKE EXECUTE ON FUNCTION pg_catalog.%s FROM PUBLIC', one.name);
    END LOOP;
END $do$;
