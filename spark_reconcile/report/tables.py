"""The tables of a run that Spark wrote sorted, read by the report in that order and a batch at a time, so that the
driver's memory does not depend on the number of rows.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reconcile.storage import Place


def read_batches(table: Place) -> Iterator[pa.RecordBatch]:
    """The rows of a table in order, some at a time; none if the table is not there."""
    for part in table.files():
        if part.name.startswith("part-"):
            with part.open() as stream, pq.ParquetFile(stream) as parquet:
                yield from parquet.iter_batches(batch_size=20_000)


def read_rows(table: Place) -> Iterator[dict[str, Any]]:
    """The rows of a table in order, as dictionaries by column."""
    for batch in read_batches(table):
        yield from rows_of(batch)


def rows_of(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch. Spark does not check the texts of ledgers; invalid bytes are replaced here."""
    try:
        rows: list[dict[str, Any]] = batch.to_pylist()
    except UnicodeDecodeError:
        texts = [index for index, column in enumerate(batch.columns) if pa.types.is_string(column.type)]
        for index in texts:
            raw = batch.column(index).cast(pa.binary()).to_pylist()
            seen = [value if value is None else value.decode(errors="replace") for value in raw]
            batch = batch.set_column(index, batch.schema.names[index], pa.array(seen, pa.string()))
        rows = batch.to_pylist()
    return rows
