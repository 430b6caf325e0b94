"""The sorted tables that Spark wrote in a run, read a batch at a time, so that the driver's memory is bounded."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_reconcile.storage import Place

Row = dict[str, Any]  #: a row of a table, by column


def read_batches(table: Place) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table in order, as batches; none if the table does not exist."""
    for part in table.files():
        if part.name.startswith("part-"):
            with part.open() as stream, pq.ParquetFile(stream) as parquet:
                yield from parquet.iter_batches(batch_size=20_000)


def read_rows(table: Place) -> Iterator[Row]:
    """Yield the rows of a table in order."""
    for batch in read_batches(table):
        yield from rows_of(batch)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Return the rows of a batch. Invalid bytes in texts are replaced, because Spark does not check ledgers' texts."""
    try:
        rows: list[Row] = batch.to_pylist()
    except UnicodeDecodeError:
        texts = [index for index, column in enumerate(batch.columns) if pa.types.is_string(column.type)]
        for index in texts:
            raw = batch.column(index).cast(pa.binary()).to_pylist()
            valid = [value if value is None else value.decode(errors="replace") for value in raw]
            batch = batch.set_column(index, batch.schema.names[index], pa.array(valid, pa.string()))
        rows = batch.to_pylist()
    return rows
