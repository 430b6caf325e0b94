"""The import of all rows in order, a few at a time. If the node stops answering, the import ends; it may be repeated.

The journal is written after the node's answers. A row whose token is in the journal is known if the entry has the same
digest, or none (written by an earlier version). Otherwise it is another row with the same record number, and is
rejected.
"""

import asyncio
import csv
import time
from base64 import b64encode
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import TextIO

from semq.app import Client, RefusedByNode
from semq.errors import Unavailable
from semq.legacy.journal import Entry, ImportJournal
from semq.legacy.mapping import OldTable, OldTables
from semq.legacy.old_rows import OldRow, OldRowRefused, Reason, RowTask, read_payload, read_row
from semq.legacy.report import LISTED_MAX, ImportReport, TableReport
from semq.legacy.source import PAYLOAD, SIZE, OldSource, Values
from semq.umx_t.address import Address

BATCH = 200  # rows between two writes of the journal
PARALLEL_MAX = 32  # submissions without an answer
PARALLEL_BYTES_MAX = 32 << 20  # bytes of their payloads, unless a single payload is larger
PROGRESS_S = 2.0  # time between two lines of progress
SHOWN_MAX = 300  # characters of a field in a line about a row that was not imported
FIELDS = ("table", "record", "reason", "detail")
OTHER_IMPORTED = "a row with its record number, but another address, AppKey or payload, is imported already"


class Transfer:
    """One import of all tables."""

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
        self._rejects_path = rejects
        self._rejects: TextIO | None = None
        self._progress = progress
        self._printed_at = time.monotonic()
        self._under_way: set[asyncio.Task[None]] = set()
        self._bytes = 0  #: sum of the payloads under way
        self._notes: list[OldRow] = []  #: received messages, for ``import.received``
        self._entries: list[Entry] = []  #: for the journal
        self._known: dict[str, str] = {}  #: entries of the journal for rows of this batch: digests by token
        self._digests: dict[str, str] = {}  #: rows of this batch that are not in the journal: digests by token

    async def run(self) -> None:
        """Import all tables. If the node or the source stops answering, the report has the reason."""
        try:
            for table in self._mapping.tables:
                if await asyncio.to_thread(self._source.has, table):
                    await self._import_table(table, self._report.tables.setdefault(table.kind, TableReport()))
        except Unavailable as error:
            self._report.stopped = error.advice()
        finally:
            await asyncio.gather(*self._under_way, return_exceptions=True)
            self._write_journal()
            if self._rejects is not None:
                self._rejects.close()

    async def _import_table(self, table: OldTable, counts: TableReport) -> None:
        rows = self._source.rows(table)
        previous_token = ""
        while batch := await asyncio.to_thread(lambda: list(islice(rows, BATCH))):
            importable = [(row, values) for values in batch if (row := self._read(table, values, counts)) is not None]
            self._known = self._journal.known([row.token for row, _ in importable])
            self._digests = {}
            for row, values in importable:
                if row.token == previous_token:
                    self._reject(row.kind, row.object_id, counts, Reason.SAME_ID.name, Reason.SAME_ID.value)
                elif row.task is RowTask.FINISHED:
                    counts.results["finished"] += 1
                elif row.task is RowTask.NOTE:
                    self._note(row, counts)
                elif self._known.get(row.token) == "":  # nothing to compare with
                    counts.results["known_by_number"] += 1
                else:
                    await self._import_document(table, row, values, counts)
                previous_token = row.token
            await self._flush(counts)
            self._print_progress(table, counts)

    def _read(self, table: OldTable, values: Values, counts: TableReport) -> OldRow | None:
        """Return a row with its task; None if it is refused."""
        counts.rows += 1
        try:
            row = read_row(table, values, self._own)
        except OldRowRefused as error:
            counts.statuses[str(values.get("status", ""))[:20]] += 1
            self._reject(table.kind, values.get("object_id"), counts, error.reason.name, str(error))
            return None
        counts.statuses[row.status] += 1
        return row

    def _note(self, row: OldRow, counts: TableReport) -> None:
        if row.token in self._known:  # the token is the identity of the message, and a note has nothing else
            counts.results["known"] += 1
        elif self._report.dry_run:
            counts.results[row.task] += 1
        else:
            self._notes.append(row)

    async def _import_document(self, table: OldTable, row: OldRow, values: Values, counts: TableReport) -> None:
        try:
            payload = values.get(PAYLOAD)
            if payload is None and values.get(SIZE):  # a large payload is read when it is sent
                payload = await asyncio.to_thread(self._source.payload, table, values)
            body = read_payload(payload, self._mapping.encoding)
        except OldRowRefused as error:
            self._reject(row.kind, row.object_id, counts, error.reason.name, str(error))
            return
        digest = row.digest(body)
        known = self._known.get(row.token)
        if digest != (known or self._digests.setdefault(row.token, digest)):
            detail = OTHER_IMPORTED if known else Reason.SAME_ID.value
            self._reject(row.kind, row.object_id, counts, Reason.SAME_ID.name, detail)
        elif known:
            counts.results["known"] += 1
        elif self._report.dry_run:
            counts.results[row.task] += 1
        elif row.task is RowTask.SEND or await self._is_missing(row, digest, counts):
            await self._wait_for_room(len(body))
            task = asyncio.create_task(self._submit(row, body, digest, counts))
            self._bytes += len(body)
            self._under_way.add(task)

    async def _is_missing(self, row: OldRow, digest: str, counts: TableReport) -> bool:
        """Ask the receiver about a message that may have arrived; return whether the message is to be sent.

        A message without an answer is sent only with ``resend_unanswered``.
        """
        await self._finish_submissions()  # so that earlier rows are submitted before this one
        try:
            answer = await self._client.request("import.ask", {"lk0": row.lk0, "target": row.target})
        except RefusedByNode as error:
            self._reject(row.kind, row.object_id, counts, error.code, str(error))
            return False
        if answer["received"]:
            counts.results["already_received"] += 1
            self._entries.append((row.token, "already_received", row.lk0, digest))
            return False
        if answer["received"] is None and not self._resend_unanswered:
            counts.results["unanswered"] += 1
            self._list(row.kind, row.object_id, "UNANSWERED", str(answer["why"]))
            return False
        return True

    async def _submit(self, row: OldRow, body: bytes, digest: str, counts: TableReport) -> None:
        try:
            lk0, is_repeated = await self._send(row, body)
        except RefusedByNode as error:
            self._reject(row.kind, row.object_id, counts, error.code, str(error))
        else:
            counts.results["known" if is_repeated else "sent"] += 1
            self._entries.append((row.token, "sent", lk0, digest))
        finally:
            self._bytes -= len(body)

    async def _send(self, row: OldRow, body: bytes) -> tuple[str, bool]:
        """Submit a row; return its new LK0, and whether its token was known. Raises RefusedByNode, Unavailable."""
        if row.sender:  # only the operation can name a sending user
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

    async def _wait_for_room(self, size: int) -> None:
        while self._under_way and (len(self._under_way) >= PARALLEL_MAX or self._bytes + size > PARALLEL_BYTES_MAX):
            done, _ = await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)
            self._remove_ended(done)

    async def _finish_submissions(self) -> None:
        if self._under_way:
            done, _ = await asyncio.wait(self._under_way)
            self._remove_ended(done)

    def _remove_ended(self, tasks: Iterable[asyncio.Task[None]]) -> None:
        """Forget ended submissions; raise the error of a failed one."""
        failures = []
        for task in tasks:
            self._under_way.discard(task)
            if (failure := task.exception()) is not None:
                failures.append(failure)
        if failures:
            raise failures[0]

    async def _flush(self, counts: TableReport) -> None:
        try:
            await self._finish_submissions()
            if self._notes:
                lk0s = [row.lk0 for row in self._notes]
                try:
                    await self._client.request("import.received", {"lk0s": lk0s})
                except RefusedByNode as error:
                    for row in self._notes:
                        self._reject(row.kind, row.object_id, counts, error.code, str(error))
                else:
                    counts.results["noted"] += len(self._notes)
                    self._entries += [(row.token, "noted", row.lk0, "") for row in self._notes]
        finally:
            self._notes = []
            self._write_journal()

    def _write_journal(self) -> None:
        entries, self._entries = self._entries, []
        if entries:
            self._journal.add(entries)

    def _reject(self, kind: str, record: object, counts: TableReport, reason: str, detail: str) -> None:
        counts.results["rejected"] += 1
        counts.reasons[reason] += 1
        self._list(kind, record, reason, detail)

    def _list(self, kind: str, record: object, reason: str, detail: str) -> None:
        """Add a row that was not imported to the report and to the file of rejected rows."""
        line: dict[str, object] = {
            "table": kind, "record": str(record)[:SHOWN_MAX], "reason": reason, "detail": detail[:SHOWN_MAX]
        }  # fmt: skip
        if len(self._report.listed) < LISTED_MAX:
            self._report.listed.append(line)
        if self._rejects_path is not None:
            if self._rejects is None:
                self._rejects = self._rejects_path.open("w", encoding="utf-8", newline="")
                csv.writer(self._rejects).writerow(FIELDS)
            csv.writer(self._rejects).writerow([line[name] for name in FIELDS])

    def _print_progress(self, table: OldTable, counts: TableReport) -> None:
        if time.monotonic() - self._printed_at >= PROGRESS_S:
            self._printed_at = time.monotonic()
            results = ", ".join(f"{number} {result}" for result, number in counts.results.items())
            self._progress(f"{table.name}: {counts.rows} rows read: {results}")
