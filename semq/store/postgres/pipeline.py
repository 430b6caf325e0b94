"""One Postgres connection in libpq's pipeline mode, on the event loop.

A unit has about twenty small statements, for which the cursors of psycopg would need more time than Postgres. So a
batch is sent in one write and answered in one read.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg.adapt import Buffer, Transformer
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGconn, PGresult
from psycopg.rows import TupleRow
from psycopg.types.string import BytesBinaryDumper

from semq.errors import SemqError
from semq.store.postgres.conversion.binary import Milliseconds, Packer, Param
from semq.store.postgres.errors import StoreUnavailable
from semq.store.postgres.statements import INSERTED

Batch = Sequence[tuple[str, Sequence[Param]]]  # name of a prepared statement, its packed parameters
Rows = list[TupleRow]
ENDS_SESSION = (b"FATAL", b"PANIC")  # severities
GOOD = frozenset({int(ExecStatus.COMMAND_OK), int(ExecStatus.TUPLES_OK)})
PIECE = 128 * 1024  # bytes of COPY data passed to libpq at a time

# Every plan must find its rows by an index: a plan made for an empty table would later read millions of rows.
OPTIONS = (
    "-c plan_cache_mode=force_generic_plan -c jit=off "
    "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off "
    "-c client_min_messages=error -c default_transaction_isolation=read\\ committed"
)


class StatementRefused(Exception):
    """Postgres refused a statement. The transaction has failed; the connection is usable."""

    def __init__(
        self, sqlstate: str, text: str, table: str = "", constraint: str = "", function: str = "", context: str = ""
    ) -> None:
        self.sqlstate = sqlstate
        self.text = text
        self.table = table
        self.constraint = constraint
        self.function = function  #: of Postgres
        self.place = -1  #: of the statement in its batch; -1: not known
        self.context = (
            context  #: functions and rows of a COPY in which the error was raised; empty: the statement itself
        )
        super().__init__(f"{sqlstate} {text}")


def _refusal(result: PGresult) -> StatementRefused:
    fields = (
        DiagnosticField.SQLSTATE,
        DiagnosticField.MESSAGE_PRIMARY,
        DiagnosticField.TABLE_NAME,
        DiagnosticField.CONSTRAINT_NAME,
        DiagnosticField.SOURCE_FUNCTION,
        DiagnosticField.CONTEXT,
    )
    return StatementRefused(*((result.error_field(field) or b"").decode(errors="replace") for field in fields))


class _Exchange:
    __slots__ = ("copies", "error", "feeding", "future", "results")

    def __init__(self, future: "asyncio.Future[list[PGresult]]", copies: "deque[memoryview] | None") -> None:
        self.future = future
        self.copies = copies  # None: pipeline mode; otherwise simple protocol, with the data for each COPY
        self.feeding: memoryview | None = None  # unsent data of the current COPY
        self.results: list[PGresult] = []
        self.error: PGresult | None = None


class PipelineWire:
    """One connection in pipeline mode.

    ``lost`` is called once, if the connection breaks. ``notified`` is called with the channel of each NOTIFY.
    """

    def __init__(
        self,
        connection: psycopg.AsyncConnection,
        lost: Callable[[StoreUnavailable], None],
        notified: Callable[[str], None] = lambda channel: None,
    ) -> None:
        connection.adapters.register_loader("timestamptz", Milliseconds)
        connection.adapters.register_dumper(bytes, BytesBinaryDumper)  # in C, unlike psycopg's own choice for bytea
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
        """Prepare statements under their names. Raises StatementRefused if one does not match the schema."""
        for name, sql in statements.items():
            self._pg.send_prepare(name.encode(), sql.encode())
        await self._sync()

    def send(self, batch: Batch) -> "asyncio.Future[list[PGresult]]":
        """Send a batch of prepared statements; return a future of one result per statement.

        The future raises StatementRefused for the first failed statement, StoreUnavailable for a lost connection.
        """
        try:
            for name, params in batch:
                self._pg.send_query_prepared(name.encode(), params, [1] * len(params), 1)
            return self._sync()
        except psycopg.Error as error:
            return self._broken(error)

    def send_unawaited(self, batch: Batch) -> None:
        """Send a batch whose result does not matter."""
        self.send(batch).add_done_callback(_forget)

    def copy(self, sql: str, data: Sequence[Buffer]) -> "asyncio.Future[list[PGresult]]":
        """Run several statements in one round trip. Each ``COPY … FROM STDIN`` gets the next element of ``data``.

        This uses the simple protocol, because libpq's pipeline mode has no COPY.
        """
        assert not self._exchanges, "COPY starts when all earlier results have arrived"
        try:
            self._pg.exit_pipeline_mode()
            self._pg.send_query(sql.encode())
            return self._expect(deque(memoryview(piece) for piece in data))
        except psycopg.Error as error:
            return self._broken(error)

    def rows(self, result: PGresult) -> Rows:
        if result.ntuples == 0:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def drop(self, fault: SemqError) -> None:
        """Close the connection; batches in progress fail with ``fault``. ``lost`` is not called."""
        if not self.closed:
            self._release(fault)
            self._pg.finish()

    def break_off(self, why: str) -> None:
        """Treat the connection as broken."""
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
                self._pump()  # the result of a COPY that was refused early may have been read already
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
        is_busy, get_result = self._pg.is_busy, self._pg.get_result
        ended = False  # libpq returns None after the results of each statement; a second None: there are no more
        while self._exchanges and not is_busy():
            exchange = self._exchanges[0]
            if exchange.feeding is not None:
                return  # libpq would only return COPY_IN again
            result = get_result()
            if result is not None:
                ended = False
                if (status := result.status) in GOOD:
                    exchange.results.append(result)
                else:
                    self._process(exchange, result, status)
            elif exchange.copies is not None:
                self._pg.enter_pipeline_mode()
                self._finish(exchange)
                ended = True
            elif ended:
                return
            else:
                ended = True

    def _process(self, exchange: _Exchange, result: PGresult, status: int) -> None:
        if status == ExecStatus.PIPELINE_SYNC:
            self._finish(exchange)
        elif status == ExecStatus.COPY_IN:
            assert exchange.copies, "there must be as many pieces of data as COPYs"
            exchange.feeding = exchange.copies.popleft()
            self._feed(exchange)
        elif status == ExecStatus.FATAL_ERROR:
            if result.error_field(DiagnosticField.SEVERITY_NONLOCALIZED) in ENDS_SESSION:
                # After a crash of the server, the backend may hang without closing the socket.
                raise psycopg.OperationalError(_refusal(result).text)
            exchange.error = exchange.error or result

    def _feed(self, exchange: _Exchange) -> None:
        """Send the data of a COPY in pieces, because libpq copies all unsent data on each attempt."""
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
            refusal = _refusal(exchange.error)
            refusal.place = len(exchange.results)
            exchange.future.set_exception(refusal)

    def _fail(self, error: Exception) -> None:
        """Abandon the connection after any error, because results can no longer be matched to batches."""
        if not isinstance(error, psycopg.Error):
            self._loop.call_exception_handler({"message": "a Postgres connection is abandoned", "exception": error})
        self._lose(error)

    def _lose(self, error: Exception) -> None:
        if not self.closed:
            fault = StoreUnavailable(fault=str(error).strip())
            self.drop(fault)
            self._lost(fault)

    def _broken(self, error: Exception) -> "asyncio.Future[list[PGresult]]":
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
                _forget(future)  # the sender may not be waiting any more


def _forget(future: "asyncio.Future[list[PGresult]]") -> None:
    # so that asyncio does not log it as never retrieved
    future.exception()
