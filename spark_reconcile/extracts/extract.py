"""A node's ledger of one business date as Parquet with a manifest, without payload.

Memory is bounded: one row group at a time. Part files are named after their content. When they are complete, the
manifest is replaced, then the part files of the earlier extract are removed. A reader that misses a file must read the
manifest again.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import date
from types import TracebackType

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from semq.clock import Clock
from spark_reconcile.days import Calendar
from spark_reconcile.errors import BadRunRequest
from spark_reconcile.extracts.ledger import NOTHING_DISCLOSED, Disclosure, read_ledger
from spark_reconcile.extracts.manifest import MANIFEST_FILE, ExtractPart, Manifest, Sign, date_folder, folder_of
from spark_reconcile.extracts.schema import ARROW_SCHEMA
from spark_reconcile.storage import Place

SETTLE_MS = 5_000  # a line's time precedes the commit of its transaction: lines of the last seconds may still appear
ROWS_PER_GROUP = 250_000
ROWS_PER_FILE = 5_000_000
PARQUET = {"compression": "zstd", "compression_level": 1, "write_statistics": True, "version": "2.6"}


@dataclass(frozen=True, slots=True)
class LedgerOrigin:
    """The ledger from which an extract is made."""

    node: str
    store: str = "1.1"
    role: str = "local"  #: local or platform
    clock_skew_ms: int | None = None  #: this node's clock minus the hub's; None if not known
    semq_version: str = ""


def extract_ledger(
    connection: psycopg.Connection,
    root: Place,
    origin: LedgerOrigin,
    day: date,
    calendar: Calendar,
    clock: Clock,
    *,
    disclosure: Disclosure = NOTHING_DISCLOSED,
    sign: Sign | None = None,
) -> Manifest:
    """Extract one business date from a node's own database. Raises BadRunRequest, BeingRun, LedgerAway."""
    with Extract(root, origin, day, calendar, clock, sign=sign) as extract:
        extract.add_all(read_ledger(connection, extract.window, origin.node, origin.store, disclosure))
        return extract.finish()


class Extract:
    """An extract that is being written. An earlier extract stays valid until ``finish``.

    Raises BadRunRequest if the date began less than SETTLE_MS ago by the node's clock, or not yet; BeingRun if another
    process writes the extract.
    """

    def __init__(
        self,
        root: Place,
        origin: LedgerOrigin,
        day: date,
        calendar: Calendar,
        clock: Clock,
        *,
        sign: Sign | None = None,
        rows_per_file: int = ROWS_PER_FILE,
    ) -> None:
        self.window = calendar.window(day)
        now = int(clock.wall().timestamp() * 1000)
        self._watermark = min(self.window.end, now - SETTLE_MS)
        if self._watermark < self.window.start:
            raise BadRunRequest("The business date has not begun.", business_date=day.isoformat())
        self._origin, self._day, self._calendar, self._clock, self._sign = origin, day, calendar, clock, sign
        self._folder = root / date_folder(day) / folder_of(origin.node, origin.store)
        self._parts = _Parts(self._folder, rows_per_file)
        self._lock = ExitStack()

    def __enter__(self) -> "Extract":
        self._lock.enter_context(self._folder.lock())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.abandon(error)
        self._lock.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add lines, in any order."""
        self._parts.add(batch)

    def add_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self.add(batch)

    def finish(self) -> Manifest:
        """Close the files and replace the manifest: from then on the new extract is valid."""
        manifest = self._manifest(self._parts.close())
        if self._sign is not None:
            manifest = replace(manifest, signature=self._sign(manifest.signed_bytes()))
        (self._folder / MANIFEST_FILE).write(manifest.encode())
        remove_parts_of_earlier_extract(self._folder, manifest)
        return manifest

    def _manifest(self, parts: list[ExtractPart]) -> Manifest:
        return Manifest(
            node=self._origin.node,
            store=self._origin.store,
            role=self._origin.role,
            business_date=self._day.isoformat(),
            zone=self._calendar.zone,
            cutoff=self._calendar.cutoff,
            window_start=self.window.start,
            window_end=self.window.end,
            watermark=self._watermark,
            rows=sum(part.rows for part in parts),
            files=tuple(parts),
            seq_first=self._parts.seq.low,
            seq_last=self._parts.seq.high,
            at_first=self._parts.at.low,
            at_last=self._parts.at.high,
            clock_skew_ms=self._origin.clock_skew_ms,
            semq_version=self._origin.semq_version,
            created_at=self._clock.wall().isoformat(timespec="seconds"),
        )


def remove_parts_of_earlier_extract(folder: Place, manifest: Manifest) -> None:
    """Remove the part files that the manifest does not name."""
    named = {part.name for part in manifest.files}
    for file in folder.files():
        if file.name.startswith("part-") and file.name not in named:
            file.remove()


class _Range:
    """The lowest and the highest value of a column; None without values."""

    def __init__(self) -> None:
        self.low: int | None = None
        self.high: int | None = None

    def include(self, column: pa.ChunkedArray) -> None:
        bounds = pc.min_max(column).as_py()
        if bounds["min"] is not None:
            self.low = bounds["min"] if self.low is None else min(self.low, bounds["min"])
            self.high = bounds["max"] if self.high is None else max(self.high, bounds["max"])


class _Parts:
    """The part files of one extract."""

    def __init__(self, folder: Place, rows_per_file: int) -> None:
        self.seq, self.at = _Range(), _Range()
        self._folder = folder
        self._rows_per_file = rows_per_file
        self._done: list[ExtractPart] = []
        self._waiting: list[pa.RecordBatch] = []
        self._rows_waiting = self._rows_in_file = 0
        self._file = ExitStack()
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            self._waiting.append(batch)
            self._rows_waiting += batch.num_rows
        if self._rows_waiting >= ROWS_PER_GROUP:
            self._write_group()

    def close(self) -> list[ExtractPart]:
        if self._waiting:
            self._write_group()
        self._close_file()
        return self._done

    def abandon(self, error: BaseException | None) -> None:
        self._file.__exit__(type(error) if error else GeneratorExit, error, None)

    @property
    def _unfinished(self) -> Place:
        return self._folder / f"_unfinished-{len(self._done):05d}"

    def _write_group(self) -> None:
        group = pa.Table.from_batches(self._waiting, ARROW_SCHEMA)
        self._waiting, self._rows_waiting = [], 0
        if self._writer is None:
            stream = self._file.enter_context(self._unfinished.writer())
            self._writer = self._file.enter_context(pq.ParquetWriter(stream, ARROW_SCHEMA, **PARQUET))
        self._writer.write_table(group)
        self.seq.include(group["seq"])
        self.at.include(group["at"])
        self._rows_in_file += group.num_rows
        if self._rows_in_file >= self._rows_per_file:
            self._close_file()

    def _close_file(self) -> None:
        if self._writer is None:
            return
        unfinished, rows = self._unfinished, self._rows_in_file
        self._file.close()
        self._writer, self._rows_in_file = None, 0
        sha256, size = unfinished.sha256(), unfinished.size()
        name = f"part-{len(self._done):05d}-{sha256[:16]}.parquet"
        unfinished.move(self._folder / name)
        self._done.append(ExtractPart(name, rows, size, sha256))


def batches_of(lines: Iterable[dict[str, object]], rows_max: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Convert rows, as dictionaries by column name, to batches; for small ledgers."""
    rows: list[dict[str, object]] = []
    for line in lines:
        rows.append(line)
        if len(rows) == rows_max:
            yield pa.RecordBatch.from_pylist(rows, ARROW_SCHEMA)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, ARROW_SCHEMA)
