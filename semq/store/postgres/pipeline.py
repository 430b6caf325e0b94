"""One Postgres connection, driven straight through libpq's pipeline mode on the event loop. Used by ``writer`` alone.

Why not a cursor: a unit is some twenty small statements, and going through cursors costs several times more than
Postgres needs for them. Here a whole batch leaves in one write and comes back in one read. All statements are
prepared when the connection is opened, so a schema that does not fit is found at the start, not on the hot path. What
a batch means is left to ``load`` and ``changes``."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Transformer
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from semq.errors import SemqError
from semq.store.postgres.binary import Milliseconds, Packer, Param
from semq.store.postgres.errors import StoreUnavailable
from semq.store.postgres.statements import INSERTED

Batch = Sequence[tuple[str, Sequence[Param]]]  # name of a prepared statement, its packed parameters
Rows = list[tuple[Any, ...]]
LAST_WORDS = (b"FATAL", b"PANIC")
PIECE = 128 * 1024  # octets of COPY data that libpq gets at a time

# The plans of these statements are always the same: reach each row by its index. Tables here grow from nothing to
# millions of rows within minutes, and a plan made for the empty table would read all of it until statistics come
# round.
OPTIONS = (
    "-c plan_cache_mode=force_generic_plan -c jit=off "
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off "
    "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c client_min_messages=error"
)


class Refusal(Exception):
    """Postgres refused a statement; the transaction is void, the connection lives. ``writer`` makes typed errors of
    it."""

    def __init__(self, sqlstate: str, text: str, table: str = "", constraint: str = "") -> None:
        self.sqlstate = sqlstate
        self.text = text
        self.table = table
        self.constraint = constraint
        super().__init__(f"{sqlstate} {text}")


def _refusal(result: PGresult) -> Refusal:
    fields = (
        DiagnosticField.SQLSTATE,
        DiagnosticField.MESSAGE_PRIMARY,
        DiagnosticField.TABLE_NAME,
        DiagnosticField.CONSTRAINT_NAME,
    )
    return Refusal(*((result.error_field(field) or b"").decode(errors="replace") for field in fields))


class _Exchange:
    """A batch on its way: what has come back of it."""

    __slots__ = ("copies", "error", "feeding", "future", "results")

    def __init__(self, future: "asyncio.Future[list[PGresult]]", copies: "deque[memoryview] | None") -> None:
        self.future = future
        self.copies = copies  # not None: simple protocol, one piece of data for each COPY in turn
        self.feeding: memoryview | None = None  # what is still to be sent of the COPY that is under way
        self.results: list[PGresult] = []
        self.error: PGresult | None = None


class Wire:
    """One connection in pipeline mode. ``lost`` is called once, with StoreUnavailable, when it breaks."""

    def __init__(
        self,
        connection: psycopg.AsyncConnection[Any],
        lost: Callable[[StoreUnavailable], None],
        notified: Callable[[str], None] = lambda channel: None,
    ) -> None:
        connection.adapters.register_loader("timestamptz", Milliseconds)
        self._connection = connection
        self._pg: PGconn = connection.pgconn
        self._lost = lost
        self._notified = notified
        self._loop = asyncio.get_running_loop()
        self._transformer = Transformer(connection)
        self.packer = Packer(connection, INSERTED)
        self._exchanges: deque[_Exchange] = deque()
        self._writing = False
        self.closed = False
        self.pid = self._pg.backend_pid
        self._fd = self._pg.socket
        self._pg.nonblocking = 1
        self._pg.enter_pipeline_mode()
        self._loop.add_reader(self._fd, self._readable)

    async def prepare(self, statements: Mapping[str, str]) -> None:
        """Prepare statements under their names. Raises Refusal if one does not fit the schema."""
        for name, sql in statements.items():
            self._pg.send_prepare(name.encode(), sql.encode())
        await self._sync()

    def send(self, batch: Batch) -> "asyncio.Future[list[PGresult]]":
        """Send a batch of prepared statements; the results, one a statement. Raises Refusal with the first that
        failed."""
        try:
            for name, params in batch:
                self._pg.send_query_prepared(name.encode(), params, [1] * len(params), 1)
            return self._sync()
        except psycopg.Error as error:
            return self._broken(error)

    def send_forgetting(self, batch: Batch) -> None:
        """Send a batch whose results nobody waits for; a broken connection is noticed all the same."""
        self.send(batch).add_done_callback(_forget)

    def copy(self, sql: str, data: Sequence[Buffer]) -> "asyncio.Future[list[PGresult]]":
        """Run several statements of which some are ``COPY … FROM STDIN``, each fed with the next piece of ``data``.

        There is no COPY in libpq's pipeline mode; the simple protocol takes one round trip for each COPY and no other.
        """
        assert not self._exchanges, "COPY starts when all before it has come back"
        try:
            self._pg.exit_pipeline_mode()
            self._pg.send_query(sql.encode())
            return self._expect(deque(memoryview(piece) for piece in data))
        except psycopg.Error as error:
            return self._broken(error)

    def rows(self, result: PGresult) -> Rows:
        """The rows of a result, as tuples."""
        if result.ntuples == 0:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def drop(self, fault: SemqError) -> None:
        """Close the connection; what is under way fails with ``fault``."""
        if not self.closed:
            self._release(fault)
            self._pg.finish()

    def break_off(self, why: str) -> None:
        """The server is known to be gone, whatever the socket says: all fails, and ``lost`` is called."""
        self._lose(psycopg.OperationalError(why))

    # ---------------------------------------------------------------------------------------------------- inside

    def _sync(self) -> "asyncio.Future[list[PGresult]]":
        self._pg.pipeline_sync()
        return self._expect(None)

    def _expect(self, copies: "deque[memoryview] | None") -> "asyncio.Future[list[PGresult]]":
        future: asyncio.Future[list[PGresult]] = self._loop.create_future()
        self._exchanges.append(_Exchange(future, copies))
        self._flush()
        return future

    def _flush(self) -> None:
        more = self._pg.flush() == 1
        if more and not self._writing:
            self._loop.add_writer(self._fd, self._writable)
        elif self._writing and not more:
            self._loop.remove_writer(self._fd)
        self._writing = more

    def _writable(self) -> None:
        try:
            self._flush()
            if self._exchanges and self._exchanges[0].feeding is not None:
                self._feed(self._exchanges[0])
                self._pump()  # the answer to a COPY that was refused early may have been read already
        except Exception as error:  # noqa: BLE001  # see _fail
            self._fail(error)

    def _readable(self) -> None:
        try:
            self._pg.consume_input()
            self._pump()
            while (notice := self._pg.notifies()) is not None:
                self._notified(notice.relname.decode())
        except Exception as error:  # noqa: BLE001  # see _fail
            self._fail(error)

    def _pump(self) -> None:
        ended = False  # libpq ends each statement with one None; two in a row mean that there is nothing yet
        while self._exchanges and not self._pg.is_busy():
            exchange = self._exchanges[0]
            if exchange.feeding is not None:
                return  # libpq would only say COPY_IN again
            result = self._pg.get_result()
            if result is None:
                if exchange.copies is not None:
                    self._pg.enter_pipeline_mode()
                    self._finish(exchange)
                elif ended:
                    return
                ended = True
                continue
            ended = False
            self._take(exchange, result)

    def _take(self, exchange: _Exchange, result: PGresult) -> None:
        status = result.status
        if status == ExecStatus.PIPELINE_SYNC:
            self._finish(exchange)
        elif status == ExecStatus.COPY_IN:
            assert exchange.copies, "as many pieces of data as COPYs"
            exchange.feeding = exchange.copies.popleft()
            self._feed(exchange)
        elif status == ExecStatus.FATAL_ERROR:
            if result.error_field(DiagnosticField.SEVERITY_NONLOCALIZED) in LAST_WORDS:
                # The session is over. A backend whose server has died may hang in its exit, and never close the socket.
                raise psycopg.OperationalError(_refusal(result).text)
            exchange.error = exchange.error or result
        elif status != ExecStatus.PIPELINE_ABORTED:
            exchange.results.append(result)

    def _feed(self, exchange: _Exchange) -> None:
        """Send the data of a COPY piece by piece: libpq moves all that it could not send yet with each attempt."""
        data = exchange.feeding
        while data is not None and not self._writing:
            if data:
                self._pg.put_copy_data(data[:PIECE])
                exchange.feeding = data = data[PIECE:]
            else:
                self._pg.put_copy_end()
                exchange.feeding = data = None
            self._flush()

    def _finish(self, exchange: _Exchange) -> None:
        self._exchanges.popleft()
        if exchange.future.done():
            return
        if exchange.error is None:
            exchange.future.set_result(exchange.results)
        else:
            exchange.future.set_exception(_refusal(exchange.error))

    def _fail(self, error: Exception) -> None:
        """Whatever went wrong, answers can no longer be told apart: only a new connection is certain again."""
        if not isinstance(error, psycopg.Error):
            self._loop.call_exception_handler({"message": "a Postgres connection is given up", "exception": error})
        self._lose(error)

    def _lose(self, error: Exception) -> None:
        if not self.closed:
            fault = StoreUnavailable(fault=str(error).strip())
            self.drop(fault)
            self._lost(fault)

    def _broken(self, error: Exception) -> "asyncio.Future[list[PGresult]]":
        """The connection turned out to be broken when something was sent: what its answer would have been."""
        self._lose(error)
        answer: asyncio.Future[list[PGresult]] = self._loop.create_future()
        answer.set_exception(StoreUnavailable(fault=str(error).strip()))
        return answer

    def _release(self, fault: SemqError) -> None:
        self.closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        while self._exchanges:
            future = self._exchanges.popleft().future
            if not future.done():
                future.set_exception(fault)
                _forget(future)  # whoever sent it may not wait any more


def _forget(future: "asyncio.Future[list[PGresult]]") -> None:
    future.exception()  # looked at, so that asyncio does not complain; the wire itself reports what breaks
