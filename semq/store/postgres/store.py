"""The store of a node on Postgres.

store = PostgresStore(url, owner=owner, clock=SystemClock(), lost=node.store_lost)
recovered = await store.start()      # begins a new incarnation and a new epoch of the lease
store.post(work)                     # from the engine built on ``recovered``
...                                  # lost(error) is called: discard the engine
recovered = await store.start()      # again, until it succeeds, for a new engine
await store.stop()                   # finishes the posted work
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Concatenate, ParamSpec, TypeVar

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from semq.answers.status import WriterCounters
from semq.clock import Clock
from semq.errors import SemqError
from semq.seal.chain import ChainLink
from semq.seal.vault import Vault
from semq.store.bodies_ahead import BodiesAhead
from semq.store.identities import DEFINED, REVOKED
from semq.store.postgres import lease, ledger_partitions
from semq.store.postgres.chain import Chain, ends_before, has_lines, insert_links, links_of_ledger, newest
from semq.store.postgres.changes import nothing_stored
from semq.store.postgres.conditions.durability import SETTINGS, verify_row
from semq.store.postgres.conditions.inspection import findings, inspect
from semq.store.postgres.connections import NeverRests, Readers, Rest
from semq.store.postgres.errors import PartitionsMissing, RowRefused, StoreFenced, StoreUnavailable, StoreWentBack
from semq.store.postgres.lease import Lease
from semq.store.postgres.locked_bodies import Locking, verify_master_key
from semq.store.postgres.owner import Owner
from semq.store.postgres.pipeline import OPTIONS, PipelineWire, StatementRefused
from semq.store.postgres.recovery import recover
from semq.store.postgres.refusals import Refusals
from semq.store.postgres.schema_version import check_on
from semq.store.postgres.statements import STATEMENTS
from semq.store.postgres.writer import OnLines, Writer
from semq.store.reader import Reader, connection_parameters, missing_settings, unavailable
from semq.store.rows import LedgerLine
from semq.store.unit import Recovered
from semq.store.work import JoinedPosts, Work

GIVE_BACK_S = 5.0  # time limit for the return of the lease
# Time without work after which a store rests again if it has changed nothing since the last rest, as after a poll.
POLLED_S = 2.0
# Channels of NOTIFY. Without a notification, the node finds the change at its next poll.
CHANNELS = ("semq_submit", "semq_done", REVOKED, DEFINED)

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


class PostgresStore:
    """A store in a Postgres database, for one process at a time. Implements ``work.WorkStore``.

    ``owner`` is this process; it may be replaced before a ``start``. Callbacks:

    * ``lost``: once, with StoreUnavailable or StoreFenced, if the store is lost between ``start`` and ``stop``.
    * ``notified``: with the channel of a NOTIFY (``CHANNELS``).
    * ``after_unit``: after each unit, when the actions of its work have run.
    * ``on_lines``: with the ledger lines of each commit, before the actions of its work.
    """

    def __init__(
        self,
        url: str,
        *,
        owner: Owner,
        clock: Clock,
        lost: Callable[[SemqError], None],
        notified: Callable[[str], None] = lambda channel: None,
        after_unit: Callable[[], None] = lambda: None,
        on_lines: OnLines | None = None,
        vault: Vault | None = None,
        readers: Readers | None = None,
        rest: Rest | None = None,
    ) -> None:
        """``vault`` None: bodies are not encrypted. ``readers``, ``rest``: for a process with several stores."""
        self.url = url
        self._rest: Rest = rest or NeverRests()
        self._deferred: list[tuple[Work, bool]] | None = None  # work for a resting store; None: it does not rest
        self._resuming: asyncio.Task[None] | None = None
        self._idle_at, self._has_gone_back = 0.0, False
        self.missing_commits = ""  #: how it was found that earlier commits are missing
        self._former_epoch: int | None = None  # epoch of the last opening that succeeded
        self._written_at_rest: int | None = None  # value of ``_written`` at the last rest
        self._rest_timer: asyncio.TimerHandle | None = None
        self.counters = WriterCounters()
        self.refusals = Refusals(clock)
        self.locking = Locking(vault)
        self.owner = owner
        self._clock = clock
        self._on_lost = lost
        self._notified = notified
        self._after_unit = after_unit
        self._on_lines = on_lines
        self._wire: PipelineWire | None = None
        self._writer: Writer | None = None
        self._lease: Lease | None = None
        self.chain = Chain("", None)
        self._reader = Reader(lambda: self.url, readers)
        self._ahead: BodiesAhead | None = None
        self.joined = JoinedPosts(self.post)
        self.unwritten: list[LedgerLine] = []

    # ------------------------------------------------------------------------------------------------- WorkStore

    def post(self, work: Work, *, later: bool = False) -> None:
        """Queue a piece of work, and open a resting store again. In a closed store the work fails: StoreUnavailable."""
        if self.joined.take(work):
            return
        if work.is_wait and self._has_committed_all:
            asyncio.get_running_loop().call_soon(work.finish)
        elif self._deferred is not None:
            self._deferred.append((work, later))
            self._resume()
        elif self._writer is None:
            asyncio.get_running_loop().call_soon(work.abandon, StoreUnavailable("The store is not open."))
        elif not (work.ahead and self._ahead is not None and self._ahead.accept(work, later=later)):
            self._writer.post(work, later=later)

    @property
    def _has_committed_all(self) -> bool:
        if self._deferred is not None:
            return not self._deferred
        return self._writer is not None and self._writer.is_idle

    def _post_stored(self, work: Work, later: bool) -> None:
        if self._writer is None:
            work.abandon(StoreUnavailable("The store is not open."))
        else:
            self._writer.post(work, later=later)

    @property
    def waiting(self) -> int:
        """The number of pieces of work that wait for a unit, without those whose bodies are still being stored."""
        deferred = len(self._deferred) if self._deferred is not None else 0
        return deferred if self._writer is None else self._writer.waiting

    # ------------------------------------------------------------------------------------------------- start and end

    async def start(self) -> Recovered:
        """Open the store under a new incarnation, and return its state.

        Raises NotDurable, ServerTooOld, SchemaTooOld, SchemaTooNew, StoreForeign and VaultLocked, which end the start
        of the node. Raises StoreFenced if another process has taken the store over since it was open here, or if the
        database went back to a former owner (StoreWentBack); the state in this process's memory is then out of date.
        After StoreUnavailable and LeaseHeld, the caller tries again.
        """
        self._close()
        self._lease = None
        self._has_gone_back = False
        await self._rest.enter(self)
        try:
            recovered = await self._open()
        except BaseException as error:
            self._rest.leave(self)
            await self._reader.close()
            if isinstance(error, psycopg.Error | DBAPIError):
                raise unavailable(error) from error
            raise
        self._former_epoch = self.current_lease.epoch
        return recovered

    async def inspect(self, expected: str | None = None, *, is_migrated: bool = False) -> str | None:
        """Return the revision of the tables, before the store is opened. Raises what ``inspection.inspect`` raises."""
        found = await self.execute(inspect, self.owner.node, expected, is_migrated=is_migrated)
        if found.is_pooled:
            self._reader.note_pooler()
        return found.revision

    async def unmet_requirements(self) -> list[str]:
        """Return, for health, what the database lacks, and who hinders the node. Raises StoreUnavailable."""
        return await self.execute(findings, self._clock.wall().date())

    def break_off(self, why: str) -> None:
        """Abandon the connection to a lost server, because the socket may never report the loss."""
        if self._wire is not None:
            self._wire.break_off(why)

    async def stop(self) -> None:
        """Commit what has been posted, give the lease back, and close. Work posted from now on fails."""
        if self._resuming is not None:
            await asyncio.gather(self._resuming, return_exceptions=True)
        if self._ahead is not None:
            await self._ahead.wait_empty()
        if self._writer is not None:
            await self._writer.stop()
        is_resting = self._deferred is not None
        lease_, self._lease = self._lease, None
        alive = self._wire is not None and not self._wire.closed
        ahead = self._ahead
        self._close()
        if ahead is not None:
            await ahead.wait_closed()
        if lease_ is not None and (alive or is_resting):
            with suppress(StoreUnavailable, DBAPIError, TimeoutError):
                async with asyncio.timeout(GIVE_BACK_S):
                    await self.execute(lease.give_back, lease_)
        await self._reader.close()

    async def execute(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``query`` with a separate connection and arguments, in a thread. Raises StoreUnavailable, RowRefused.

        For reads, and for changes that may also be made after a takeover: the epoch is not checked.
        """
        try:
            return await self._reader.execute(query, *args, **kwargs)
        except RowRefused as error:
            self.refusals.note(error)
            raise

    @property
    def current_lease(self) -> Lease:
        """The lease of this opening of the store. Raises StoreUnavailable if the store is not open."""
        if self._lease is None or self.state == "lost":
            raise StoreUnavailable("The store is not open.")
        return self._lease

    async def execute_as_owner(
        self, lease_: Lease, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do what ``execute`` does, in one transaction in which no other process can take the store over.

        ``lease_``: ``current_lease``, taken before the caller read the data on which the change depends. The query must
        be short: until it ends, the lease cannot be renewed. Raises StoreUnavailable, also if the store has been closed
        or opened again since, and StoreFenced if another process owns it.
        """
        if self.current_lease is not lease_:
            raise StoreUnavailable("This process has reopened the store meanwhile.")

        def run(connection: Connection) -> T:
            with connection.begin():
                lease.lock(connection, lease_)
                return query(connection, *args, **kwargs)

        try:
            return await self.execute(run)
        except StoreFenced as error:
            if self._lease is not lease_:
                raise StoreUnavailable("This process has closed or reopened the store meanwhile.") from error
            raise

    def note_missing_commits(self, reason: str) -> None:
        """Note, once for each ``start``, that earlier commits are missing, for instance after a failover.

        ``reason``: how this was found.
        """
        self._note_missing_commits(self.chain.head, reason)

    def _note_missing_commits(self, head: ChainLink | None, reason: str) -> None:
        if not self._has_gone_back:
            self._has_gone_back, self.missing_commits = True, reason
            self.counters.went_back += 1
            log.error("the store lacks commits, its ledger ends with %s: %s", head, reason)

    # ------------------------------------------------------------------------------------------------- inside

    async def _open(self) -> Recovered:
        connection = await self._connect()
        try:
            await self._inspect(connection)
            self._lease, recovered = await self._recover(connection)
            await self._make_partitions(connection)
            for channel in CHANNELS:
                await connection.execute(f"LISTEN {channel}")
            await verify_master_key(connection, self.locking.vault)
            await self._begin_incarnation(connection, recovered)
        except BaseException:
            await connection.close()
            raise
        return recovered

    async def _make_partitions(self, connection: psycopg.AsyncConnection) -> None:
        """Make the partitions of the coming days. Until that succeeds, lines are stored in the default partition."""
        try:
            await ledger_partitions.make_ahead(connection, self._clock.wall().date())
        except psycopg.Error as error:
            if connection.closed:
                raise
            if not isinstance(error, psycopg.errors.LockNotAvailable):  # a long query may hold the lock
                log.error("%s", PartitionsMissing(fault=str(error).strip()).advice())

    async def _recover(self, connection: psycopg.AsyncConnection) -> tuple[Lease, Recovered]:
        inc, new_uuid = self._clock.incarnation(), self._clock.uuid()
        try:
            return await recover(connection, self.owner, inc, new_uuid, former_epoch=self._former_epoch)
        except StoreWentBack:
            self._note_missing_commits(await newest(connection), "its lease is older than this process")
            raise

    async def _begin_incarnation(self, connection: psycopg.AsyncConnection, recovered: Recovered) -> None:
        head = await newest(connection)
        if head is None and await has_lines(connection):
            head = await self._make_chain(connection, recovered.store_uuid)
        former, self.chain = self.chain.head, Chain(recovered.store_uuid, head)
        if ends_before(head, former):
            self.note_missing_commits(f"this process has written {former}")
        self._numbers = count(recovered.first_id)
        # Bodies are not stored ahead if they are encrypted, because they are then bound to the keys of their rows, nor
        # in a store that rests, because this needs a second connection.
        if self.locking.vault is None and self._rest.after_s is None:
            self._ahead = BodiesAhead(partial(self._connect, "semq-bodies"), recovered.first_id, self._post_stored)
        await self._begin_writing(connection)

    async def _make_chain(self, connection: psycopg.AsyncConnection, store_uuid: str) -> ChainLink | None:
        """Make the chain of a ledger that an older version wrote; return its end.

        The ledger may be so long that the lease must be renewed meanwhile, so it is read on a connection of its own.
        """
        assert self._lease is not None
        async with await self._connect(lease.CHAIN_READER) as second:
            reading = asyncio.create_task(links_of_ledger(second, store_uuid))
            try:
                while not (await asyncio.wait((reading,), timeout=lease.RENEW_S))[0]:
                    await lease.keep(connection, self._lease)
            finally:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)
        links = reading.result()
        async with connection.transaction():
            await lease.keep(connection, self._lease)
            await insert_links(connection, links)
            await lease.keep(connection, self._lease)  # otherwise it could have expired meanwhile
        return links[-1] if links else None

    async def _begin_writing(self, connection: psycopg.AsyncConnection) -> None:
        assert self._lease is not None
        wire = PipelineWire(connection, self._lose, self._notified)
        try:
            await wire.prepare(STATEMENTS)
        except BaseException as error:
            fault = StoreUnavailable(fault=str(error))
            wire.drop(fault)  # the event loop must not watch a socket that is closed
            if isinstance(error, StatementRefused):  # for instance after a change by hand
                raise fault.with_remedy("Run `semq db upgrade`, or undo the change of the tables.") from error
            raise
        self._wire = wire
        stored_key = nothing_stored if self._ahead is None else self._ahead.key_of
        self._writer = Writer(
            wire, self._lease, self._numbers, self.counters, self.chain, self.locking, self._ended, self._unit_done,
            self._on_lines, stored_key, self.refusals.note,
        )  # fmt: skip
        self._note_idle()

    def _unit_done(self) -> None:
        self._note_idle()
        self._after_unit()

    def _note_idle(self) -> None:
        if self._rest.after_s is not None:
            loop = asyncio.get_running_loop()
            self._idle_at = loop.time()
            loop.call_soon(self._rest.note_idle)  # after this unit, because only then the writer can be idle
            if self._rest_timer is None:
                self._rest_timer = loop.call_later(self._pause_s(self._rest.after_s), self._check_rest)

    # ------------------------------------------------------------------------------------------------- rest

    @property
    def state(self) -> str:
        """The state of the connection for writing: ``open``, ``rest`` (closed until there is work), or ``lost``."""
        return "rest" if self._deferred is not None else "lost" if self._writer is None else "open"

    @property
    def idle_since(self) -> float | None:
        is_idle = self._writer is not None and self._deferred is None and self._writer.is_idle
        return self._idle_at if is_idle else None

    @property
    def _written(self) -> int:
        return self.counters.units - self.counters.read_only

    def _pause_s(self, after_s: float) -> float:
        """Return the time without work after which the store rests."""
        return min(after_s, POLLED_S) if self._written == self._written_at_rest else after_s

    def _check_rest(self) -> None:
        self._rest_timer = None
        if self._writer is None or self._deferred is not None or self._rest.after_s is None:
            return
        loop, since = asyncio.get_running_loop(), self.idle_since
        pause_s = self._pause_s(self._rest.after_s)
        left_s = pause_s - (loop.time() - since) if since is not None else pause_s
        if left_s <= 0:
            self._resting = loop.create_task(self.rest())  # the loop itself keeps no reference to a task
        else:
            self._rest_timer = loop.call_later(left_s, self._check_rest)

    def _cancel_rest(self) -> None:
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    async def rest(self) -> bool:
        writer, wire = self._writer, self._wire
        if self.idle_since is None or writer is None or wire is None:
            return False
        self._deferred = []  # from here on work waits for the next connection
        is_kept = await writer.rest(self._rest.lease_s)
        if self._writer is not writer:  # lost meanwhile: ``_ended`` has failed the deferred work
            return True
        self._writer = self._wire = None
        self._cancel_rest()
        self._written_at_rest = self._written
        wire.drop(StoreUnavailable("The store rests."))
        self._rest.leave(self)
        if not is_kept or self._deferred:
            self._resume()
        return True

    def _resume(self) -> None:
        if self._resuming is None and self._writer is None:
            self._resuming = asyncio.get_running_loop().create_task(self._resume_and_post())

    async def _resume_and_post(self) -> None:
        try:
            await self._rest.enter(self)
            await self._open_again()
        except (psycopg.Error, OSError, SemqError) as error:
            fault = error if isinstance(error, SemqError) else StoreUnavailable(fault=str(error).strip())
            self._resuming = None
            self._ended(fault)
            return
        self._resuming = None
        deferred, self._deferred = self._deferred or [], None
        for work, later in deferred:
            self.post(work, later=later)

    async def _open_again(self) -> None:
        assert self._lease is not None
        connection = await self._connect()
        try:
            await lease.keep(connection, self._lease)
            for channel in CHANNELS:
                await connection.execute(f"LISTEN {channel}")
            await self._begin_writing(connection)
        except BaseException:
            await connection.close()
            raise

    async def _inspect(self, connection: psycopg.AsyncConnection) -> None:
        """Check the version of the tables and the settings of Postgres.

        The connection must be new: one opened earlier keeps settings that have been changed since.
        """
        await check_on(connection)
        verify_row(connection.info.server_version, await (await connection.execute(SETTINGS.encode())).fetchone())

    def _lose(self, fault: SemqError) -> None:
        if self._writer is not None:
            self._writer.lose(fault)

    def _ended(self, fault: SemqError) -> None:
        self._writer = None
        if self._wire is not None:
            self._wire.drop(fault)
        self._rest.leave(self)
        deferred, self._deferred = self._deferred or [], None
        for work in (*(work for work, _ in deferred), *self._end_ahead()):
            asyncio.get_running_loop().call_soon(work.abandon, fault)
        self._on_lost(fault)

    def _end_ahead(self) -> list[Work]:
        ahead, self._ahead = self._ahead, None
        return [] if ahead is None else ahead.end()

    async def _connect(self, name: str = lease.WRITER) -> psycopg.AsyncConnection:
        parameters = connection_parameters(self.url, name, OPTIONS)
        connection = await psycopg.AsyncConnection.connect(**parameters, autocommit=True)
        if self._reader.is_pooled:
            await connection.execute(*missing_settings(parameters["options"]))
        return connection

    def _close(self) -> None:
        self._writer = None
        for work in self._end_ahead():
            asyncio.get_running_loop().call_soon(work.abandon, StoreUnavailable("The store has been closed."))
        self._cancel_rest()
        if self._resuming is not None:
            self._resuming.cancel()
            self._resuming = None
        self._deferred = None
        self._rest.leave(self)
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.drop(StoreUnavailable("The store has been closed."))
