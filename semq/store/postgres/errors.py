"""What can go wrong between SEMQ and its Postgres. Codes 3000–3099.

Raised by ``writer``, ``lease``, ``migration`` and ``recovery``; the engine sees them as the argument of
``Work.failed``.
"""

from semq.errors import BadInput, Misconfigured, SemqError, Unavailable


class StoreUnavailable(Unavailable):
    """The store cannot be reached, or did not say whether it committed."""

    code = "SEMQ-3001"
    remedy = "Look whether Postgres runs and has room; the node comes back by itself."


class StoreFenced(StoreUnavailable):
    """Another process has taken over this store; this one writes nothing more."""

    code = "SEMQ-3002"
    remedy = (
        "One process of a node serves; started again, this one stands by until the other ends (`standby` in the log)."
    )


class LeaseHeld(Unavailable):
    """Another process owns this store at the moment."""

    code = "SEMQ-3003"
    remedy = "Wait until its lease has run out (15 s after it was killed), or stop it."


class StaleRow(SemqError):
    """A row is not as it was when the decision was taken; nothing of this work was written."""

    code = "SEMQ-3004"
    remedy = "Nothing is lost, the row is looked at again. If it repeats, stop what else writes to these tables."


class RowRefused(BadInput):
    """Postgres refused a row."""

    code = "SEMQ-3005"
    remedy = "The message of Postgres names the column or the rule; correct the document or its attributes and repeat."


class DecisionFailed(SemqError):
    """A decision ended with an error that nobody foresaw; nothing of it was written."""

    code = "SEMQ-3006"
    remedy = "This is a defect of SEMQ: report the stack trace from the log."


class SchemaTooOld(Misconfigured):
    """The tables in the database are those of an older version of SEMQ, or are not there yet."""

    code = "SEMQ-3010"
    remedy = "Stop the node, run `semq db upgrade --config FILE`, then start the node."


class SchemaTooNew(Misconfigured):
    """The tables in the database are those of a newer version of SEMQ."""

    code = "SEMQ-3011"
    remedy = "Install that version of SEMQ; tables are never changed back."


class SchemaBusy(Unavailable):
    """Something works on the tables, so that they cannot be brought to this version now; nothing is half done."""

    code = "SEMQ-3012"
    remedy = (
        "Stop the node that works on this database, and its standby; end other sessions that lock its tables. Then "
        "start again, or repeat `semq db upgrade --config FILE`: it continues where it stopped."
    )


class RoleRefused(BadInput):
    """The role cannot be made, or given these rights."""

    code = "SEMQ-3023"
    remedy = "Name a role of its own for each application: `semq db grant erp --send --receive` (SQL.md)."


class SchemaOpen(BadInput):
    """Roles of applications could create objects in the schema of the node's tables; nothing was granted."""

    code = "SEMQ-3024"
    remedy = "As the owner of the database: REVOKE CREATE ON SCHEMA public FROM PUBLIC; (SQL.md)."


class NotWaiting(BadInput):
    """No such document is waiting: it has been finished, or was never there."""

    code = "SEMQ-3021"
    remedy = "Roll the transaction back: its effect has been committed by another one."
