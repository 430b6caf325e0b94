"""The node's database for the web process: views in read-only transactions with a time limit, and the process's tables.

The connections are few and separate from those of the node, so that a slow page cannot delay a commit. The URL is
looked up for each connection, because an embedded server may not run yet.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import DataError

from semq.store.postgres.errors import StoreUnavailable
from semq.store.postgres.refusals import row_refused
from semq.store.reader import ENDED_IF_SUSPENDED, connection_parameters, is_unavailable, unavailable
from semq.web.errors import BadRequest, QueryTooSlow

READERS, WRITERS = 4, 2  # connections of each pool, with a thread for each
READ_MS, WRITE_MS = 2_000, 5_000  # statement_timeout of each pool

P = ParamSpec("P")
T = TypeVar("T")


class Database:
    """Two small pools of connections: one to read, one to write."""

    def __init__(self, find: Callable[[], str | None]) -> None:
        """``find`` returns the URL of the database; None while the database does not run."""
        self._find = find
        # Writers have threads of their own, so that slow pages do not delay the audit log and sign-ins.
        self._read_threads = ThreadPoolExecutor(READERS, "database-reader")
        self._write_threads = ThreadPoolExecutor(WRITERS, "database-writer")
        self._reader = self._engine(
            "semq-web-reader", READERS, f"-c statement_timeout={READ_MS}", "-c default_transaction_read_only=on"
        )
        self._writer = self._engine("semq-web", WRITERS, f"-c statement_timeout={WRITE_MS}", "-c synchronous_commit=on")

    async def read(self, view: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a read-only query. Raises StoreUnavailable, QueryTooSlow, BadRequest."""
        return await self._run(self._read_threads, self._reader, view, *args, **kwargs)

    async def write(self, change: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Change tables of the web process. Raises StoreUnavailable, RowRefused, QueryTooSlow, BadRequest."""
        return await self._run(self._write_threads, self._writer, change, *args, **kwargs)

    def close(self) -> None:
        """Close all connections, after the queries in progress."""
        self._read_threads.shutdown(wait=True)
        self._write_threads.shutdown(wait=True)
        self._reader.dispose()
        self._writer.dispose()

    async def _run(
        self,
        threads: ThreadPoolExecutor,
        engine: Engine,
        function: Callable[Concatenate[Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        def run() -> T:
            with engine.connect() as connection:
                return function(connection, *args, **kwargs)

        try:
            return await asyncio.get_running_loop().run_in_executor(threads, run)
        except (DataError, UnicodeEncodeError) as error:  # NUL, a lone surrogate, a number out of range
            raise BadRequest("The database cannot represent one of the values.") from error
        except Exception as error:
            cause = getattr(error, "orig", error)
            if isinstance(cause, psycopg.errors.UndefinedTable):  # an older node, which has not migrated
                raise StoreUnavailable("The node has not prepared the tables yet.") from error
            if isinstance(cause, psycopg.errors.QueryCanceled):
                raise QueryTooSlow(limit_ms=READ_MS if engine is self._reader else WRITE_MS) from error
            if is_unavailable(error):
                raise unavailable(error) from error
            if (refused := row_refused(error)) is not None:
                raise refused from error
            raise

    def _engine(self, name: str, size: int, *options: str) -> Engine:
        def connect() -> psycopg.Connection:
            url = self._find()
            if url is None:
                raise psycopg.OperationalError("the node's database does not run")
            return psycopg.connect(**connection_parameters(url, name, ENDED_IF_SUSPENDED, *options))

        return create_engine(
            "postgresql+psycopg://",
            creator=connect,
            pool_size=size,
            max_overflow=0,
            pool_timeout=10,
            pool_pre_ping=True,
        )
