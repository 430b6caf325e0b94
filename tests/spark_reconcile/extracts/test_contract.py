"""The contract of the extract: the file that is checked in, and other programs that read the folders with their own defaults."""

from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_reconcile.extracts.delivery import DELIVERED, SPOOL
from spark_reconcile.extracts.schema import COLUMNS
from tests.spark_reconcile.extracts import contract
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, HOUR, STORE_COURSE, Office, OfficeMessage

# Ledger | lines, sum of their numbers, sum of their sizes
Sums = dict[str, tuple[int, int, int]]


def test_the_contract_is_that_of_the_code() -> None:
    written = contract.FILE.read_text("utf-8")
    assert written == contract.text(), "./run python -m tests.spark_reconcile.extracts.contract writes it again"


def _pandas(folder: Path, spark: SparkSession) -> Sums:
    rows = pd.read_parquet(folder)
    assert set(rows["business_date"]) == {f"{DAY}"}
    return {
        str(ledger): (len(lines), int(lines["seq"].sum()), int(lines["size"].sum()))
        for ledger, lines in rows.groupby("ledger", observed=True)
    }


def _arrow(folder: Path, spark: SparkSession) -> Sums:
    rows = ds.dataset(folder, partitioning="hive").to_table().group_by("ledger")
    sums = rows.aggregate([([], "count_all"), ("seq", "sum"), ("size", "sum")]).to_pylist()
    return {row["ledger"]: (row["count_all"], row["seq_sum"], row["size_sum"]) for row in sums}


def _polars(folder: Path, spark: SparkSession) -> Sums:
    # Polars refuses a folder with files of several kinds, hidden ones too, but takes a pattern.
    rows = pl.scan_parquet(f"{folder}/**/*.parquet", hive_partitioning=True).group_by("ledger")
    sums = rows.agg(pl.len(), pl.col("seq").sum(), pl.col("size").sum()).collect()
    return {ledger: (count, numbers, sizes) for ledger, count, numbers, sizes in sums.iter_rows()}


def _duckdb(folder: Path, spark: SparkSession) -> Sums:
    query = f"SELECT ledger, count(*), sum(seq), sum(size) FROM '{folder}/**/*.parquet' GROUP BY ledger"
    rows = duckdb.connect().execute(query).fetchall()
    return {ledger: (count, int(numbers), int(sizes)) for ledger, count, numbers, sizes in rows}


def _spark(folder: Path, spark: SparkSession) -> Sums:
    rows = spark.read.parquet(f"file://{folder}").groupBy("ledger")
    sums = rows.agg(F.count("*"), F.sum("seq"), F.sum("size")).collect()
    return {row[0]: (row[1], row[2], row[3]) for row in sums}


@pytest.mark.parametrize("reader", [_pandas, _arrow, _polars, _duckdb, _spark])
def test_other_programs_read_the_folders_with_their_own_defaults(
    office: Office, spark: SparkSession, reader: Callable[[Path, SparkSession], Sums]
) -> None:
    for number, course in enumerate((FORWARD_COURSE, STORE_COURSE, FORWARD_COURSE), 1):
        office.write(OfficeMessage(number, at=10 * HOUR + number), course)
    office.extract()
    folder = Path(office.extracts.path)
    # Everything else that a folder may have: a sent parcel, a killed extract, pieces that arrive.
    (office.folder("1.a") / DELIVERED).write_text("0" * 64)
    (office.folder("1.a") / "_unfinished-00000").write_bytes(b"PAR1")
    (folder / SPOOL / "1.b").mkdir(parents=True)
    (folder / SPOOL / "1.b" / "00001").write_bytes(b"SEMQ-PIECE-1\n")
    assert reader(folder, spark) == {
        f"{name}.1.1": (
            len(lines),
            sum(int(str(line["seq"])) for line in lines),
            sum(int(str(line["size"])) for line in lines),
        )
        for name, lines in office.lines.items()
    }


def test_no_key_of_a_folder_is_a_column(office: Office) -> None:
    office.write(OfficeMessage(1), FORWARD_COURSE)
    office.extract()
    part = next(office.folder("1.a").glob("part-*"))
    keys = {folder.partition("=")[0] for folder in part.relative_to(office.extracts.path).parts[:-1]}
    assert keys == {"business_date", "ledger"}
    assert keys.isdisjoint(pq.read_schema(part).names)
    assert pq.read_schema(part).names == [column.name for column in COLUMNS]
