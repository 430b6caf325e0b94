"""Connections of stores to Postgres, for processes with one store or many.

In a process with many stores, a store without work rests: it closes the connection for writing, and keeps lease, place
in the chain of the ledger, and incarnation. The next work opens the connection again.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Protocol, TypeVar

import psycopg
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import NullPool

T = TypeVar("T")
THREADS_PER_STORE = 2  # bounded, so that a database that does not answer blocks only the queries of its own store
TIMEOUT_S = 60  # time limit of a statement on the server
URL = "postgresql+psycopg://"
OPTIONS: dict[str, object] = {"use_native_hstore": False}  # SQLAlchemy would search the catalogs for a type hstore


class Readers(Protocol):
    """The connections with which a store reads."""

    def engine(self, connect: Callable[..., "psycopg.Connection"]) -> Engine:
        """Return the SQLAlchemy engine of a store. ``connect`` opens a connection."""

    def run(self, query: Callable[[], T]) -> "asyncio.Future[T]":
        """Run a query in a thread."""


class OwnReaders:
    """Up to four connections; two of them stay open between queries."""

    def engine(self, connect: Callable[..., "psycopg.Connection"]) -> Engine:
        return create_engine(URL, creator=connect, pool_size=2, max_overflow=2, pool_pre_ping=True, **OPTIONS)

    def run(self, query: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(None, query)


class SharedReaders:
    """Connections of one of several stores, opened for each query. The stores of a process share the threads."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._turns = asyncio.Semaphore(THREADS_PER_STORE)

    def engine(self, connect: Callable[..., "psycopg.Connection"]) -> Engine:
        def connected() -> "psycopg.Connection":
            return connect(f"-c statement_timeout={TIMEOUT_S}s")

        return create_engine(URL, creator=connected, poolclass=NullPool, **OPTIONS)

    def run(self, query: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.ensure_future(self._in_turn(query))

    async def _in_turn(self, query: Callable[[], T]) -> T:
        async with self._turns:
            return await asyncio.get_running_loop().run_in_executor(self._threads, query)


class RestingStore(Protocol):
    """A store that can rest."""

    @property
    def idle_since(self) -> float | None:
        """The time (of the loop) since which the store has no work; None while it works or rests."""

    async def rest(self) -> bool:
        """Close the connection unless there is work. Return whether the connection is closed."""


class Rest(Protocol):
    """The rule by which a store rests."""

    after_s: float | None  #: time without work after which a store rests; None: never
    lease_s: float  #: validity of a resting store's lease

    async def enter(self, store: RestingStore) -> None:
        """Wait until the store may have a connection."""

    def leave(self, store: RestingStore) -> None:
        """Note that the store has no connection."""

    def note_idle(self) -> None:
        """Note that a store has become idle."""


class NeverRests:
    """The ``Rest`` of the only store of a process."""

    after_s: float | None = None
    lease_s = 0.0

    async def enter(self, store: RestingStore) -> None:
        pass

    def leave(self, store: RestingStore) -> None:
        pass

    def note_idle(self) -> None:
        pass


class SharedConnections:
    """The ``Rest`` of many stores, which together have at most ``connections_max`` connections."""

    def __init__(self, connections_max: int, after_s: float, lease_s: float) -> None:
        self.after_s: float | None = after_s
        self.lease_s = lease_s
        self.connections_max = connections_max
        self._taken: dict[RestingStore, None] = {}
        self._freed = asyncio.Event()

    @property
    def taken(self) -> int:
        return len(self._taken)

    async def enter(self, store: RestingStore) -> None:
        """Wait until the store may have a connection; if none is free, let the store that is idle longest rest."""
        while store not in self._taken and len(self._taken) >= self.connections_max:
            self._freed.clear()
            idle = [(since, holder) for holder in self._taken if (since := holder.idle_since) is not None]
            if not (idle and await min(idle, key=lambda pair: pair[0])[1].rest()):
                await self._freed.wait()
        self._taken[store] = None

    def leave(self, store: RestingStore) -> None:
        self._taken.pop(store, None)
        self._freed.set()

    def note_idle(self) -> None:
        """Let a waiting store take the connection of the idle store."""
        self._freed.set()
