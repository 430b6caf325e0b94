"""One engine of the comparison, as a process: ``python -m bench.reconciliation.engines ENGINE FOLDER DATE MIB``.

MIB is the engine's limit of memory. The process prints one JSON object: seconds, number of messages by verdict, and
further figures of the engine.
"""

import json
import sys
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from bench.cli import exit_on_sigterm
from bench.reconciliation.sql import DUCKDB, POSTGRES, facts_sql, situation_sql
from semq.clock import SystemClock
from semq.store.embedded.server import EmbeddedPostgres
from spark_reconcile.days import Calendar
from spark_reconcile.extracts.schema import ARROW_SCHEMA
from spark_reconcile.judgement.situation import unpack
from spark_reconcile.judgement.verdicts import judge
from spark_reconcile.progress import Progress
from spark_reconcile.run.job import RunRequest, run
from spark_reconcile.settings import ReconcileSettings

# Columns that the comparison in Postgres reads, and their types there.
LOADED = {
    **dict.fromkeys(("node", "lk0", "target", "lk1", "digest"), "text"),
    **dict.fromkeys(("seq", "at"), "bigint"),
    **dict.fromkeys(("side", "event", "save_fwd"), "smallint"),
    "ack2": "boolean",
}
Counts = dict[str, int]


def spark(folder: Path, day: date, mib: int) -> dict[str, Any]:
    """Run the complete job, including report and tables."""
    settings = ReconcileSettings(extracts=str(folder / "extracts"), reports=str(folder / "reports"))
    clock = SystemClock()
    begun = time.monotonic()
    result = run(settings, RunRequest(day, memory=f"{mib}m"), clock, Progress(clock))
    seconds = time.monotonic() - begun
    verdicts = {name: count for name, count in result.verdicts.items() if count}
    return {"seconds": seconds, "verdicts": verdicts, "steps": result.seconds, "report": result.report}


def in_duckdb(folder: Path, day: date, mib: int) -> dict[str, Any]:
    """Run the comparison in DuckDB on the extracts; write verdicts as Parquet."""
    window = Calendar().window(day)
    begun = time.monotonic()
    with duckdb.connect(str(folder / "compare.duckdb")) as connection:
        connection.execute(f"SET memory_limit = '{mib}MiB'; SET preserve_insertion_order = false")
        connection.execute(f"SET temp_directory = '{folder / 'duckdb-spill'}'")
        lines = f"read_parquet('{folder}/extracts/*/*/*.parquet', hive_partitioning = false)"
        connection.execute(f"CREATE TABLE facts AS {facts_sql(lines, window, DUCKDB)}")
        situation = situation_sql(window, DUCKDB)
        rows = connection.execute(f"SELECT {situation} AS situation, count(*) FROM facts GROUP BY 1").fetchall()
        connection.execute("CREATE TABLE grid (situation integer, verdict text)")
        connection.executemany("INSERT INTO grid VALUES (?, ?)", _grid(rows))
        connection.execute(
            f"COPY (SELECT lk0, verdict FROM facts JOIN grid ON grid.situation = ({situation})) "
            f"TO '{folder / 'duckdb.parquet'}' (FORMAT parquet, COMPRESSION zstd)"
        )
    return {"seconds": time.monotonic() - begun, "verdicts": _verdicts(rows)}


def in_postgres(folder: Path, day: date, mib: int) -> dict[str, Any]:
    """Run the comparison in Postgres; the load of the lines is measured separately."""
    window = Calendar().window(day)
    memory = {
        "shared_buffers": f"{mib // 4}MB",
        "work_mem": f"{mib // 2}MB",
        "max_wal_size": "8GB",
        "hash_mem_multiplier": "1",
    }
    with EmbeddedPostgres(folder / "postgres", overrides=memory) as server:
        with psycopg.connect(server.url_of("postgres"), autocommit=True) as connection:
            begun = time.monotonic()
            _load(connection, folder)
            loaded = time.monotonic()
            connection.execute(f"CREATE UNLOGGED TABLE facts AS {facts_sql('lines', window, POSTGRES)}")
            situation = situation_sql(window, POSTGRES)
            rows = connection.execute(f"SELECT {situation}, count(*) FROM facts GROUP BY 1").fetchall()
            connection.execute("CREATE TEMP TABLE grid (situation integer PRIMARY KEY, verdict text)")
            with connection.cursor() as cursor:
                cursor.executemany("INSERT INTO grid VALUES (%s, %s)", _grid(rows))
            connection.execute(
                "CREATE UNLOGGED TABLE verdicts AS SELECT lk0, verdict FROM facts "
                f"JOIN grid ON situation = ({situation})"
            )
            ended = time.monotonic()
    return {"seconds": ended - loaded, "verdicts": _verdicts(rows), "load_s": loaded - begun}


def _load(connection: psycopg.Connection, folder: Path) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in LOADED.items())
    connection.execute(f"CREATE UNLOGGED TABLE lines ({columns})")
    names = ", ".join(LOADED)
    # Arrow quotes every text, also the word used for null.
    statement = f"COPY lines ({names}) FROM STDIN (FORMAT csv, NULL 'null', FORCE_NULL ({names}))"
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for batch in _batches(folder):
            copy.write(batch)
    connection.execute("ANALYZE lines")


def _batches(folder: Path) -> Iterator[bytes]:
    """Yield the lines as CSV, with nulls as a word, because an empty text differs from null."""
    schema = pa.schema([ARROW_SCHEMA.field(name) for name in LOADED])
    options = pv.WriteOptions(include_header=False, quoting_style="needed")
    for file in sorted((folder / "extracts").rglob("*.parquet")):
        for batch in pq.ParquetFile(file).iter_batches(100_000, columns=list(LOADED)):
            table = pa.Table.from_batches([batch]).cast(schema)
            texts = [column.cast(pa.string()).fill_null("null") for column in table.columns]
            sink = pa.BufferOutputStream()
            pv.write_csv(pa.table(texts, names=list(LOADED)), sink, options)
            yield sink.getvalue().to_pybytes()


def _grid(rows: list[Any]) -> list[tuple[int, str]]:
    return [(number, judge(unpack(number)).verdict) for number, _ in rows]


def _verdicts(rows: list[Any]) -> Counts:
    counts: Counts = {}
    for number, count in rows:
        name = judge(unpack(number)).verdict
        counts[name] = counts.get(name, 0) + count
    return counts


ENGINES = {"spark": spark, "duckdb": in_duckdb, "postgres": in_postgres}

if __name__ == "__main__":
    _, _engine, _folder, _day, _mib = sys.argv
    exit_on_sigterm()
    print(json.dumps(ENGINES[_engine](Path(_folder), date.fromisoformat(_day), int(_mib))))
