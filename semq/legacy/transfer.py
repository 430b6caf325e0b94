"""The import: rows are read in order, a few at a time, and written into the journal after the node's answer.

Documents are submitted in the order of their record numbers, several in parallel. If the node stops answering, the
import ends; a repeat continues it.
"""

import asyncio
import csv
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from semq.app import Client, RefusedByNode
from semq.errors import Unavailable
from semq.legacy.journal import ImportJournal
from semq.legacy.mapping import OldTable, OldTables
from semq.legacy.old_rows import OldRow, OldRowRefused, Reason, RowTask, read_payload, read_row
from semq.legacy.report import LISTED_MAX, ImportReport, TableReport
from semq.legacy.source import PAYLOAD, SIZE, OldSource, Values
from semq.umx_t.address import Address

BATCH = 200  # rows between two writes of the journal
AT_ONCE = 32  # submissions without an answer
BYTES_AT_ONCE = 32 << 20  # bytes of their payloads, unless a single one is larger
PROGRESS_S = 2.0
SHOWN_MAX = 300
FIELDS = ("table", "record", "reason", "detail")
Entry = tuple[str, str, str]


class Transfer:
    """One import."""

    def __init__(
        self,
        client: Client,
        source: OldSource,
        mapping: OldTables,
        journal: ImportJournal,
        report: ImportReport,
        *,
        own: Address,
        resend_unanswered: bool = False,
        rejects: Path | None = None,
        progress: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._client = client
        self._source = source
        self._mapping = mapping
        self._journal = journal
        self._report = report
        self._own = own
        self._resend_unanswered = resend_unanswered
        self._rejects_file = rejects
        self._rejects: TextIO | None = None
        self._progress = progress
        self._printed_at = time.monotonic()
        self._under_way: set[asyncio.Task[None]] = set()
        self._bytes = 0
        self._notes: list[OldRow] = []
        self._entries: list[Entry] = []

    async def run(self) -> None:
        """Import all tables; ``report`` has the result also if the node or the source stops answering."""
        try:
            for table in self._mapping.tables:
                if await asyncio.to_thread(self._source.has, table):
                    await self._import_table(table, self._report.tables.setdefault(table.kind, TableReport()))
        except Unavailable as error:
            self._report.stopped = error.advice()
        finally:
            await asyncio.gather(*self._under_way, return_exceptions=True)
            self._write()
            if self._rejects is not None:
                self._rejects.close()

    async def _import_table(self, table: OldTable, counts: TableReport) -> None:
        rows = self._source.rows(table)
        last = ""
        while batch := await asyncio.to_thread(lambda: list(islice(rows, BATCH))):
            read = [(row, values) for values in batch if (row := self._read(table, values, counts)) is not None]
            known = self._journal.known([row.token for row, _ in read])
            for row, values in read:
                if row.token == last:
                    self._reject(row.kind, row.object_id, counts, Reason.SAME_ID.name, Reason.SAME_ID.value)
                elif row.token in known:
                    counts.results["known"] += 1
                elif row.task is RowTask.FINISHED:
                    counts.results["finished"] += 1
                else:
                    await self._take(table, row, values, counts)
                last = row.token
            await self._flush(counts)
            self._print_progress(table, counts)

    def _read(self, table: OldTable, values: Values, counts: TableReport) -> OldRow | None:
        counts.rows += 1
        try:
            row = read_row(table, values, self._own)
        except OldRowRefused as error:
            counts.statuses[str(values.get("status", ""))[:20]] += 1
            self._reject(table.kind, values.get("object_id"), counts, error.reason.name, str(error))
            return None
        counts.statuses[row.status] += 1
        return row

    async def _take(self, table: OldTable, row: OldRow, values: Values, counts: TableReport) -> None:
        if row.task is RowTask.NOTE:
            if self._report.dry_run:
                counts.results[row.task] += 1
            else:
                self._notes.append(row)
            return
        try:
            raw = values.get(PAYLOAD)
            if raw is None and values.get(SIZE):  # a large payload stays in the database until it is sent
                raw = await asyncio.to_thread(self._source.payload, table, values)
            body = read_payload(raw, self._mapping.encoding)
        except OldRowRefused as error:
            self._reject(row.kind, row.object_id, counts, error.reason.name, str(error))
            return
        if self._report.dry_run:
            counts.results[row.task] += 1
        elif row.task is RowTask.SEND or await self._is_missing(row, counts):
            await self._room(len(body))
            task = asyncio.create_task(self._submit(row, body, counts))
            self._bytes += len(body)
            self._under_way.add(task)

    async def _is_missing(self, row: OldRow, counts: TableReport) -> bool:
        """Ask the receiver about a message that may have arrived; return whether it has to be sent."""
        await self._settle()  # earlier messages of the older queue are sent first
        try:
            answer = await self._client.request("import.ask", {"lk0": row.lk0, "target": row.target})
        except RefusedByNode as error:
            self._reject(row.kind, row.object_id, counts, error.code, str(error))
            return False
        if answer["received"]:
            counts.results["already_received"] += 1
            self._entries.append((row.token, "already_received", row.lk0))
            return False
        if answer["received"] is None and not self._resend_unanswered:
            counts.results["unanswered"] += 1
            self._list(row.kind, row.object_id, "UNANSWERED", str(answer["why"]))
            return False
        return True

    async def _submit(self, row: OldRow, body: bytes, counts: TableReport) -> None:
        try:
            lk0, repeated = await self._accepted(row, body)
        except RefusedByNode as error:
            self._reject(row.kind, row.object_id, counts, error.code, str(error))
        else:
            counts.results["known" if repeated else "sent"] += 1
            self._entries.append((row.token, "sent", lk0))
        finally:
            self._bytes -= len(body)

    async def _accepted(self, row: OldRow, body: bytes) -> tuple[str, bool]:
        """Submit a row; return its new LK0, and whether the node had it already. Raises RefusedByNode, Unavailable."""
        if row.sender:  # only the operation accepts the name of a user
            answer = await self._client.request(
                "msg.submit",
                {
                    "target": row.target, "body_base64": b64encode(body).decode(), "app_key": str(row.app_key),
                    "sender": row.sender, "token": row.token,
                },
            )  # fmt: skip
            return str(answer["lk0"]), bool(answer["repeated"])
        sent = await self._client.send(
            row.target, body, app_key=row.app_key, save_fwd=row.save_fwd, ack2=row.ack2, reliable=row.reliable,
            fixed=row.fixed, encrypt=row.encrypt, token=row.token,
        )  # fmt: skip
        return sent.lk0, sent.repeated

    async def _room(self, size: int) -> None:
        """Wait until there is room for a payload among those under way."""
        while self._under_way and (len(self._under_way) >= AT_ONCE or self._bytes + size > BYTES_AT_ONCE):
            done, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            self._ended(done)

    async def _settle(self) -> None:
        """Wait for all submissions under way."""
        if self._under_way:
            done, _ = await asyncio.wait(self._under_way)
            self._ended(done)

    def _ended(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Remove ended submissions. Raises the error of one that failed."""
        failures = []
        for task in tasks:
            self._under_way.discard(task)
            failures += [failure] if (failure := task.exception()) is not None else []
        if failures:
            raise failures[0]

    async def _flush(self, counts: TableReport) -> None:
        """Wait for all submissions under way and write the journal."""
        try:
            await self._settle()
            if self._notes:
                lk0s = [row.lk0 for row in self._notes]
                try:
                    await self._client.request("import.received", {"lk0s": lk0s})
                except RefusedByNode as error:
                    for row in self._notes:
                        self._reject(row.kind, row.object_id, counts, error.code, str(error))
                else:
                    counts.results["noted"] += len(self._notes)
                    self._entries += [(row.token, "noted", row.lk0) for row in self._notes]
        finally:
            self._notes = []
            self._write()

    def _write(self) -> None:
        entries, self._entries = self._entries, []
        if entries:
            self._journal.add(entries)

    def _reject(self, kind: str, record: object, counts: TableReport, reason: str, detail: str) -> None:
        counts.results["rejected"] += 1
        counts.reasons[reason] += 1
        self._list(kind, record, reason, detail)

    def _list(self, kind: str, record: object, reason: str, detail: str) -> None:
        line: dict[str, Any] = {
            "table": kind, "record": str(record)[:SHOWN_MAX], "reason": reason, "detail": detail[:SHOWN_MAX]
        }  # fmt: skip
        if len(self._report.listed) < LISTED_MAX:
            self._report.listed.append(line)
        if self._rejects_file is not None:
            if self._rejects is None:
                self._rejects = self._rejects_file.open("w", encoding="utf-8", newline="")
                csv.writer(self._rejects).writerow(FIELDS)
            csv.writer(self._rejects).writerow([line[name] for name in FIELDS])

    def _print_progress(self, table: OldTable, counts: TableReport) -> None:
        if time.monotonic() - self._printed_at >= PROGRESS_S:
            self._printed_at = time.monotonic()
            results = ", ".join(f"{number} {result}" for result, number in counts.results.items())
            self._progress(f"{table.name}: {counts.rows} rows read: {results}")
