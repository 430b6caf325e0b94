"""Storage of large bodies on a separate connection, so that they do not keep the writer's connection busy.

A large body is first committed alone, under a negative key. Then the work with the row is queued, and the unit gives
the body the final key and the envelope. If the body could not be stored, the unit writes it. Bodies that no unit takes
are deleted, here or at the next start.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

import psycopg
from psycopg.types.string import BytesBinaryDumper

from semq.store.work import Work, after_commit

WAITING_MAX = 8 << 20  # bytes of bodies that may wait
IDLE_S = 30.0  # time without bodies after which the connection is closed
ENDED_MAX = 100  # keys in ``_ended`` of a table; when there are so many, the bodies under them are deleted

INSERT = {
    "tb_0031_body": "INSERT INTO tb_0031_body (object_id, envelope, payload) VALUES (%b, ''::bytea, %b)",
    "tb_0030_body": "INSERT INTO tb_0030_body (bref, envelope, payload) VALUES (%b, ''::bytea, %b)",
}
DELETE = {
    "tb_0031_body": "DELETE FROM tb_0031_body WHERE object_id = ANY(%b::bigint[])",
    "tb_0030_body": "DELETE FROM tb_0030_body WHERE bref = ANY(%b::bigint[])",
}
log = logging.getLogger(__name__)
Connect = Callable[[], Awaitable["psycopg.AsyncConnection"]]


class BodiesAhead:
    """The bodies of one opened store, written one after the other."""

    def __init__(self, connect: Connect, first_id: int, post: Callable[[Work, bool], None]) -> None:
        """``post``: ``WorkStore.post``. ``first_id``: first record id of this opening; keys are below -``first_id``, so
        that none is used twice.
        """
        self._connect = connect
        self._post = post
        self._next_key = -first_id
        self._queue: deque[tuple[Work, bool]] = deque()
        self._waiting_bytes = 0
        self._keys: dict[tuple[str, int], int] = {}  #: keys of stored bodies, by table and identity of the payload
        #: keys of work that has ended, by table; a body still stored under such a key was not taken by a unit
        self._ended: dict[str, list[int]] = {table: [] for table in DELETE}
        self._must_delete = False
        self._arrived = asyncio.Event()
        self._queue_is_empty = asyncio.Event()
        self._connection: psycopg.AsyncConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def accept(self, work: Work, *, later: bool) -> bool:
        """Store the bodies of a piece of work in the background, then pass the work to ``post``.

        Return False, and do nothing, if ``Work.ahead`` is empty or too many bytes wait.
        """
        size = sum(len(payload) for _, payload in work.ahead)
        if not size or self._waiting_bytes + size > WAITING_MAX:
            return False
        self._waiting_bytes += size
        self._queue.append((work, later))
        self._queue_is_empty.clear()
        self._arrived.set()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(), name="bodies-ahead")
        return True

    def key_of(self, table: str, payload: bytes) -> int | None:
        """Return and forget the key of a body, for one row; None if the body is not stored."""
        return self._keys.pop((table, id(payload)), None)

    async def wait_empty(self) -> None:
        while self._queue:
            await self._queue_is_empty.wait()

    def end(self) -> list[Work]:
        """Stop. Return the work that was not passed to ``post``."""
        if self._task is not None:
            self._task.cancel()
        not_queued = [work for work, _ in self._queue]
        self._queue.clear()
        self._queue_is_empty.set()
        return not_queued

    async def wait_closed(self) -> None:
        """After ``end``: wait until the connection is closed."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        try:
            while True:
                self._arrived.clear()
                while self._queue:
                    await self._store_next()
                self._queue_is_empty.set()
                if self._must_delete:
                    await self._delete()
                try:
                    async with asyncio.timeout(IDLE_S):
                        await self._arrived.wait()
                except TimeoutError:
                    await self._delete()
                    if not self._queue:  # work may have arrived at the same moment
                        return
        finally:
            self._close()

    async def _store_next(self) -> None:
        work, later = self._queue[0]
        stored: list[tuple[str, bytes, int]] = []
        try:
            connection = await self._open()
            for table, payload in work.ahead:
                if (table, id(payload)) not in self._keys:
                    self._next_key -= 1
                    await connection.execute(INSERT[table], (self._next_key, payload), prepare=True)
                    self._keys[table, id(payload)] = self._next_key
                    stored.append((table, payload, self._next_key))
        except Exception as error:  # noqa: BLE001  # the unit then writes the body
            self._close_after(error)
        self._queue.popleft()
        self._waiting_bytes -= sum(len(payload) for _, payload in work.ahead)
        self._post(work, later)
        if stored:
            self._post(self._release(stored), True)

    async def _delete(self) -> None:
        self._must_delete = False
        try:
            for table, keys in self._ended.items():
                if count := len(keys):
                    await (await self._open()).execute(DELETE[table], (keys[:count],))
                    del keys[:count]
        except Exception as error:  # noqa: BLE001  # the next start deletes the remaining bodies
            self._close_after(error)

    def _close_after(self, error: Exception) -> None:
        if not isinstance(error, psycopg.Error | OSError):
            log.error("Storing or deleting bodies ahead of their rows failed.", exc_info=error)
        self._close()

    def _release(self, stored: list[tuple[str, bytes, int]]) -> Work:
        """Return work that releases the keys once all work posted earlier has ended. Until then, it keeps the payloads
        alive, because ``_keys`` identifies them by ``id``.
        """

        def ended() -> None:
            for table, payload, key in stored:
                is_taken = self._keys.pop((table, id(payload)), None) is None
                self._ended[table].append(key)
                if not is_taken or len(self._ended[table]) >= ENDED_MAX:
                    self._must_delete = True
                    self._arrived.set()

        release = after_commit(ended)
        release.on_failure = lambda error: ended()
        return release

    async def _open(self) -> "psycopg.AsyncConnection":
        if self._connection is None:
            self._connection = await self._connect()
            self._connection.adapters.register_dumper(bytes, BytesBinaryDumper)
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()
