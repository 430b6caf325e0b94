"""Errors of the store on Postgres; the SQL functions raise NotWaiting and FunctionsOpen themselves."""

from semq.errors import BadInput, Misconfigured, SemqError, Unavailable


class StoreUnavailable(Unavailable):
    """The store cannot be reached, or did not report whether it committed."""

    code = "SEMQ-3001"
    remedy = "Check that Postgres runs and has disk space; the node reconnects without a restart."


class StoreFenced(StoreUnavailable):
    """Another process has taken over this store; this process cannot write any more."""

    code = "SEMQ-3002"
    remedy = "Only one process of a node is active; a second one waits until the first ends (`standby` in the log)."


class StoreWentBack(StoreFenced):
    """The store is older than this process; the queues in the memory of this process are out of date."""

    remedy = "Start the node again; commits are missing: see *Backup and restore* in the operator's guide."


class LeaseHeld(Unavailable):
    """Another process owns this store."""

    code = "SEMQ-3003"
    remedy = "Stop that process, or wait: if it has ended, its lease expires after the seconds given as until_s."


class StaleRow(SemqError):
    """A row has changed since the decision was made; nothing of this work was written."""

    code = "SEMQ-3004"
    remedy = "Nothing is lost; the node tries again. If it recurs, stop other programs that write to these tables."


class RowRefused(BadInput):
    """Postgres refused a row."""

    code = "SEMQ-3005"
    remedy = "The message of Postgres names the column or the rule; correct the document or its attributes and repeat."

    @property
    def is_passing(self) -> bool:
        """Whether the same row may be accepted at the next attempt: a conflict or deadlock, or a lock or object that
        was not free."""
        return self.facts.get("sqlstate") in ("40001", "40P01", "55P03", "55006")


class DecisionFailed(SemqError):
    """A decision ended with an unexpected error; nothing of it was written."""

    code = "SEMQ-3006"
    remedy = "This is a defect of SEMQ: report the stack trace from the log."


class StoreForeign(Misconfigured):
    """This database belongs to another node."""

    code = "SEMQ-3007"
    remedy = (
        "Correct [node] id (or semq_id and semq_db_id), or name this node's own database: [database] url, "
        "or for an embedded one [node] data_dir."
    )


class SchemaTooOld(Misconfigured):
    """The tables in the database belong to an older version of SEMQ, or do not exist yet."""

    code = "SEMQ-3010"
    remedy = "Stop the node, run `semq db upgrade --config FILE`, then start the node."


class SchemaTooNew(Misconfigured):
    """The tables in the database belong to a newer version of SEMQ."""

    code = "SEMQ-3011"
    remedy = (
        "Install the version that made them, or a newer one. Tables cannot be downgraded; the way back is a backup "
        "from before the update: `semq db restore BACKUP --config FILE`."
    )


class SchemaBeforeRelease(Misconfigured):
    """The tables in the database were made before version 1.0, which cannot upgrade them."""

    code = "SEMQ-3014"
    remedy = (
        "Let the version that made these tables finish its documents (`semq node drain`). Then name an empty database, "
        "or for an embedded one move the folder postgres out of the data directory."
    )


class SchemaBusy(Unavailable):
    """The tables are in use, so they cannot be upgraded now; completed steps are kept."""

    code = "SEMQ-3012"
    remedy = (
        "Stop the node that works on this database, and its standby; end other sessions that lock its tables. Then "
        "start again, or repeat `semq db upgrade --config FILE`: it continues where it stopped."
    )


class RoleRefused(BadInput):
    """The role cannot be created, or cannot be given these rights."""

    code = "SEMQ-3023"
    remedy = (
        "Use a separate role for each application: `semq db grant erp --send --receive` (guide: *SQL*). If the role of "
        "the node may not create roles, let an administrator of the server do it first: "
        "CREATE ROLE erp LOGIN PASSWORD '…';"
    )


class SchemaOpen(BadInput):
    """Roles of applications could create objects in the schema of the node's tables; nothing was granted."""

    code = "SEMQ-3024"
    remedy = "As the owner of the database: REVOKE CREATE ON SCHEMA public FROM PUBLIC; (guide: *SQL*)."


class FunctionsOpen(BadInput):
    """Every role may call the functions for applications, as after a restore without rights."""

    code = "SEMQ-3025"
    remedy = "Run `semq db grant ROLE --send --receive` for each role of an application: it closes the functions again."


class StoreReplaced(Misconfigured):
    """The database is not the store that this node opened last."""

    code = "SEMQ-3013"
    remedy = (
        "Name the former database: [database] url, and the search_path of its role (ALTER ROLE ... SET search_path). If"
        " this node shall begin with an empty store, delete the file `store` in its node.data_dir."
    )


class EncodingUnfit(Misconfigured):
    """The database does not store texts as UTF-8."""

    code = "SEMQ-3026"
    remedy = "Make the database anew: CREATE DATABASE semq OWNER ROLE ENCODING 'UTF8' TEMPLATE template0;"


class RightsMissing(Misconfigured):
    """The node's role lacks rights in its database."""

    code = "SEMQ-3027"
    remedy = (
        "As a superuser or owner, GRANT what is given as found; or restore the dump as the node's role."
        " For an owner: REASSIGN OWNED BY its role TO the node's role."
    )


class PoolerUnfit(Misconfigured):
    """A connection pooler gives each transaction another session of the server; the node needs one session."""

    code = "SEMQ-3028"
    remedy = (
        "Connect to Postgres itself, or set PgBouncer to pool_mode = session and ignore_startup_parameters = options"
        " for this database (the operator's guide, *A database of your own*)."
    )


class DatabaseReadOnly(StoreUnavailable):
    """The database accepts no writes."""

    code = "SEMQ-3029"
    remedy = (
        "Name the primary, or end the standby; or ALTER DATABASE (or ROLE) ... RESET default_transaction_read_only."
        " A running node goes on without a restart."
    )


class LimitsUnfit(Misconfigured):
    """Limits of the role, the database or the server are too low for a node."""

    code = "SEMQ-3030"
    remedy = "ALTER ROLE (or DATABASE) ... CONNECTION LIMIT -1, or RESET transaction_timeout; raise max_connections."


class LocksOpen(Misconfigured):
    """Every role of the database may take advisory locks, which could stop the node or hide documents."""

    code = "SEMQ-3031"
    remedy = (
        "As a superuser in this database, with psql: SELECT format('GRANT EXECUTE ON FUNCTION %1$s TO ROLE; REVOKE"
        " EXECUTE ON FUNCTION %1$s FROM PUBLIC', oid::regprocedure) FROM pg_proc WHERE proname LIKE 'pg%advisory%'"
        " \\gexec -- ROLE: the node's role"
    )


class RolesUnlimited(Misconfigured):
    """Roles of applications may take all connections of the server."""

    code = "SEMQ-3033"
    remedy = "ALTER ROLE ... CONNECTION LIMIT 20; the limits of all roles together must leave eight connections."


class PartitionsMissing(Unavailable):
    """The ledger's partitions of the coming days cannot be made; its lines go to semq_ledger_other meanwhile."""

    code = "SEMQ-3032"
    remedy = (
        "Remove what the message of Postgres names: a missing right, an event trigger, a table of the same name. The"
        " node tries again every five minutes, and moves the lines."
    )


class NotWaiting(BadInput):
    """No such document is waiting: it has been finished, or never existed."""

    code = "SEMQ-3021"
    remedy = "Roll the transaction back: another transaction has finished the document, or the number is wrong."


class BackupFailed(Unavailable):
    """The backup could not be made, or not be restored; nothing incomplete remains."""

    code = "SEMQ-3034"
    remedy = "Correct what the message of Postgres names, and repeat."


class BackupUnusable(BadInput):
    """This folder is no complete backup."""

    code = "SEMQ-3035"
    remedy = "Name the folder of a backup that `semq db backup` has completed: it contains backup.json."


class DatabaseInUse(BadInput):
    """The database has tables of SEMQ already; a backup is restored into an empty one only."""

    code = "SEMQ-3036"
    remedy = (
        "Stop the node. An embedded database: move the folder postgres out of the data directory; else name an empty "
        "database: [database] url. Then repeat."
    )
