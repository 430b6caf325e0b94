"""Queries and small changes beside the writer of a store, on connections of their own, in threads.

Rows on which messages depend are changed by ``postgres.writer``.
"""

import asyncio
import os
import re
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import Connection
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from semq.store.embedded.errors import ServerTooOld
from semq.store.postgres.connections import OwnReaders, Readers
from semq.store.postgres.errors import PoolerUnfit, StoreUnavailable
from semq.store.postgres.refusals import row_refused

CONNECT_S = 10
# Text of a server that refuses SESSION | what to do
REFUSED_SESSIONS = {
    "unsupported startup parameter": PoolerUnfit.remedy,  # of PgBouncer
    "idle_session_timeout": ServerTooOld.remedy,  # of Postgres before 14, in the language of the server
}
# The server ends a session that waits so long in a transaction for its process: a suspended process must not keep
# locks. The time is shorter than the validity of a lease.
SUSPENDED_MS = 10_000
ENDED_IF_SUSPENDED = f"-c idle_in_transaction_session_timeout={SUSPENDED_MS}"
# Settings of each session, which a role or a database may have otherwise: formats that drivers read, and no limits.
SESSION = (
    "-c DateStyle=ISO -c IntervalStyle=postgres -c bytea_output=hex -c standard_conforming_strings=on"
    " -c default_transaction_isolation=read\\ committed -c default_transaction_deferrable=off"
    " -c statement_timeout=0 -c lock_timeout=0 -c idle_session_timeout=0 -c idle_in_transaction_session_timeout=0"
)
SETTING = re.compile(r"-c (\w+)=((?:\\.|\S)*)")
CLOSE_S = 10.0  # time that ``close`` waits for queries in progress
# A server that disappears without closing the connection is noticed after about 15 seconds.
KEEPALIVE: dict[str, object] = {
    "connect_timeout": CONNECT_S,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 3,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
# Errors of a query if the server cannot be reached, or no connection of the pool becomes free.
UNAVAILABLE = (psycopg.OperationalError, psycopg.InterfaceError, OperationalError, InterfaceError, PoolTimeout)

P = ParamSpec("P")
T = TypeVar("T")


class Execute(Protocol):
    """The function that runs a query on a database, such as ``Reader.execute``."""

    async def __call__(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``query`` with a connection and the arguments."""


def is_unavailable(error: Exception) -> bool:
    """Return whether a query failed because the server cannot be reached, or has ended a suspended session."""
    cause = getattr(error, "orig", None) or error
    return isinstance(error, UNAVAILABLE) or isinstance(cause, psycopg.errors.IdleInTransactionSessionTimeout)


def unavailable(error: Exception) -> StoreUnavailable:
    """Return the error of the store for an error that ``is_unavailable`` accepts, with the text of the driver."""
    cause = getattr(error, "orig", None) or error  # SQLAlchemy adds the statement and a link
    fault = StoreUnavailable(fault=str(cause).strip())
    return fault.with_remedy(remedy_of_refusal(str(cause)) or fault.remedy)


def remedy_of_refusal(fault: str) -> str | None:
    """Return what to do if the server refuses the settings of each session; None for other faults."""
    return next((remedy for text, remedy in REFUSED_SESSIONS.items() if text in fault), None)


def connection_parameters(url: str, name: str, *options: str) -> dict[str, Any]:
    """Return the parameters of a connection for psycopg: those of ``url``, KEEPALIVE, SESSION and the name of the
    session.

    ``options``: settings as ``-c NAME=VALUE``, in addition to those of the URL or, if it has none, of PGOPTIONS.
    """
    given = conninfo_to_dict(url)
    first = str(given.get("options") or os.environ.get("PGOPTIONS", ""))
    chosen = {"options": " ".join((first, SESSION, *options)), "application_name": name, "client_encoding": "UTF8"}
    return {**KEEPALIVE, **given, **chosen}


def missing_settings(options: str) -> tuple[str, list[str]]:
    """Return a query that makes the settings of ``options`` in a session, and its parameters.

    For a pooler that does not pass options on.
    """
    pairs = [found.group(1, 2) for found in SETTING.finditer(options)]
    calls = ", ".join("set_config(%s, %s, false)" for _ in pairs)
    return f"SELECT {calls}", [word.replace("\\ ", " ") for pair in pairs for word in pair]


class Reader:
    """A small pool of connections to a database. ``url`` returns its address, and is called for each new connection."""

    def __init__(self, url: Callable[[], str], readers: Readers | None = None) -> None:
        """``readers``: the connections and threads of a process with several stores. None: up to four connections."""
        self._url = url
        self._readers: Readers = readers or OwnReaders()
        self.is_pooled = False  #: whether a pooler is in front of the server
        self._running: set[asyncio.Future[Any]] = set()
        self._engine = self._readers.engine(self._connect)

    async def execute(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``query`` with a connection and the arguments, in a thread. Raises StoreUnavailable, RowRefused.

        A query that changes rows begins its transaction itself.
        """

        def run() -> T:
            with self._engine.connect() as connection:
                return query(connection, *args, **kwargs)

        # If the caller stops waiting, the thread continues, and ``close`` waits for it.
        running = self._readers.run(run)
        self._running.add(running)
        running.add_done_callback(self._note_end)
        try:
            return await asyncio.shield(running)
        except Exception as error:
            if is_unavailable(error):
                raise unavailable(error) from error
            if (refused := row_refused(error)) is not None:
                raise refused from error
            raise

    def note_pooler(self) -> None:
        """Note that a pooler is in front of the server, which has dropped the settings of the open connections."""
        self.is_pooled = True
        self._engine.dispose()

    async def close(self) -> None:
        """Close the connections when the queries in progress have ended, at the latest after CLOSE_S."""
        if self._running:
            await asyncio.wait(self._running, timeout=CLOSE_S)
        self._engine.dispose()

    def _note_end(self, ended: "asyncio.Future[T]") -> None:
        self._running.discard(ended)
        if not ended.cancelled():
            ended.exception()  # retrieved, because the caller may not be waiting any more

    def _connect(self, *options: str) -> psycopg.Connection:
        parameters = connection_parameters(self._url(), "semq-reader", ENDED_IF_SUSPENDED, *options)
        connection = psycopg.connect(**parameters)
        if self.is_pooled:
            with connection.transaction():
                connection.execute(*missing_settings(parameters["options"]))
        return connection
