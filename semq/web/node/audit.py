"""The audit log: a line for every act and every shown payload.

Arguments are recorded without payloads and secrets, and in bounded length.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog

from semq.clock import Clock
from semq.errors import SemqError, Unavailable
from semq.service.message_names import with_document_names
from semq.service.operations.audit import LIST_MAX, recorded, storable
from semq.store import audit as store
from semq.store.audit import Line
from semq.web.node.database import Database

log = structlog.get_logger("semq.web.audit")

BATCH_MAX = 1000  # lines of a commit
DEFERRED_S, DEFERRED_MAX = 0.2, 100_000  # delay of deferred lines, and their largest number in memory
CLOSE_S = 5.0  # longest wait for deferred lines in ``close``


class Audit:
    """The audit log, as one web process writes it."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting: list[tuple[Line, asyncio.Future[int]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._deferred: list[Line] = []
        self._deferred_task: asyncio.Task[None] | None = None

    async def with_names(self, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Return arguments with documents by key and short name. Raises StoreUnavailable, QueryTooSlow, BadRequest."""
        return await with_document_names(self._database.read, arguments, LIST_MAX)

    async def note(
        self,
        user: str,
        via: str,
        peer: str,
        act: str,
        arguments: Mapping[str, object] | None = None,
        *,
        outcome: str = "done",
        detail: str = "",
        asked: int | None = None,
        read_payload: bool = False,
    ) -> int:
        """Commit a line and return its number. If this raises, the caller must not act.

        ``outcome``: asked (before the act), done, refused or failed. ``asked``: number of the line before the act.
        ``read_payload``: the act displays a payload.

        Raises StoreUnavailable, QueryTooSlow, BadRequest.
        """
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        line = self._line(user, via, peer, act, arguments, outcome, detail, asked, read_payload)
        self._waiting.append((line, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.get_running_loop().create_task(self._write())
        return await done

    def note_soon(
        self, user: str, via: str, peer: str, act: str, arguments: Mapping[str, object], outcome: str, detail: str = ""
    ) -> None:
        """Write a line after DEFERRED_S about an act that is also in the node's ledger."""
        if len(self._deferred) >= DEFERRED_MAX:
            self._deferred.pop(0)  # the database has been unavailable for long; the ledger contains the acts
        self._deferred.append(self._line(user, via, peer, act, arguments, outcome, detail, None, False))
        if self._deferred_task is None or self._deferred_task.done():
            self._deferred_task = asyncio.get_running_loop().create_task(self._write_deferred())

    async def _write_deferred(self) -> None:
        while self._deferred:
            await asyncio.sleep(DEFERRED_S)
            batch, self._deferred = self._deferred[:BATCH_MAX], self._deferred[BATCH_MAX:]
            try:
                await self._database.write(store.add, batch)
            except Unavailable as error:
                log.warning("audit_not_written", error=str(error), again_in_s=DEFERRED_S)
                self._deferred = batch + self._deferred
            except Exception:  # noqa: BLE001 - ``_write_singly`` logs the line that cannot be stored
                await self._write_singly(batch)

    async def _write_singly(self, batch: Sequence[Line]) -> None:
        """Write each line in a separate commit, because one line of the batch cannot be stored. Log and drop that line:
        a repeat would also fail, and delay all further lines.
        """
        for number, line in enumerate(batch):
            try:
                await self._database.write(store.add, [line])
            except Unavailable:
                self._deferred = [*batch[number:], *self._deferred]
                return
            except Exception:
                log.exception("audit_not_written", act=line.act)

    def _line(
        self,
        user: str,
        via: str,
        peer: str,
        act: str,
        arguments: Mapping[str, object] | None,
        outcome: str,
        detail: str,
        asked: int | None,
        read_payload: bool,
    ) -> Line:
        return Line(
            self._clock.wall(), storable(user), via, storable(peer), storable(act), recorded(arguments or {}), outcome,
            storable(detail), asked, read_payload,
        )  # fmt: skip

    async def close(self) -> None:
        """Wait for the lines of ``note``, and at most CLOSE_S for those of ``note_soon``."""
        if self._writing is not None:
            await self._writing
        if self._deferred_task is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._deferred_task, CLOSE_S)

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
            try:
                numbers = await self._database.write(store.add, [line for line, _ in batch])
            except Exception as error:
                if not isinstance(error, SemqError):
                    log.exception("audit_not_written")
                _fail(batch, error)
            else:
                for (_, done), number in zip(batch, numbers, strict=True):
                    if not done.done():
                        done.set_result(number)


def _fail(batch: list[tuple[Line, asyncio.Future[int]]], error: Exception) -> None:
    for _, done in batch:
        if not done.done():
            done.set_exception(error)
