-- Guards of tables, called by the writer of a node and by a trigger. Callers have the rights of the owner of the tables.

-- The writer's second guard: if a change did not find the rows for which it was decided, the whole transaction fails.
CREATE OR REPLACE FUNCTION semq_expect(met bigint, expected bigint, sqlstate_otherwise text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF met <> expected THEN
        RAISE EXCEPTION '% rows were met where % were expected', met, expected USING ERRCODE = sqlstate_otherwise;
    END IF;
END $$;

-- Prevents programs and users of the console from changing the audit log; the owner of the tables can remove the trigger.
CREATE OR REPLACE FUNCTION web_audit_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('semq.audit_retention', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'SEMQ: lines of the audit log are only added';
END
$$;
CREATE OR REPLACE TRIGGER web_audit_append_only BEFORE UPDATE OR DELETE ON web_audit
    FOR EACH ROW EXECUTE FUNCTION web_audit_append_only();
CREATE OR REPLACE TRIGGER web_audit_no_truncate BEFORE TRUNCATE ON web_audit
    FOR EACH STATEMENT EXECUTE FUNCTION web_audit_append_only();
