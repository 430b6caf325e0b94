"""The Spark session: few log lines, UTC, ANSI types, a suitable Java.

On local cores the session is created here, with the Java processes of ``processes``. Under ``spark-submit`` the
submitted session is used, and only unset SQL settings are set. The job uses DataFrames only, so executors run nothing
but Java.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from semq.errors import SemqError
from spark_reconcile.errors import SparkAway, SparkFailed
from spark_reconcile.spark import processes
from spark_reconcile.spark.java import java_home

ROWS_PER_PARTITION = 400_000
ROWS_TO_COMPILE_FOR = 200_000  # below this number of rows, compiling a query takes longer than interpreting it
# Compiler and collector of a local Java process, for few lines and for many. HotSpot never compiles methods longer than
# 8,000 bytes, and the code that Spark generates for the facts is longer.
FEW = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MANY = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"

# Settings that the verdicts depend on; they cannot be overridden.
RELIED_ON = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
# Defaults that the submitter of the job may override.
SQL = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# For a Java process with foreign options: several short methods instead of one that is only interpreted.
SUBMITTED = {"spark.sql.codegen.hugeMethodLimit": "8000"}
# Settings needed before the start of a local Java process.
OWN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.heartbeatInterval": "60s",  # a busy or suspended machine is not a lost executor
    "spark.network.timeout": "600s",
    "spark.sql.files.maxPartitionBytes": "16m",  # some 800,000 lines: two tasks fit into a small heap
    "spark.io.compression.codec": "lz4",
}


def is_submitted() -> bool:
    """Whether ``spark-submit`` started this process, and with it the session's master and resources."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start(
    name: str = "semq-reconcile",
    *,
    master: str | None = None,
    memory: str | None = None,
    rows: int = 0,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session. Raises NoJava, SparkAway.

    ``master``: the Spark master, by default ``local[*]``. ``memory``: heap of a local run, such as ``4g``. ``rows``:
    number of lines to read, which determines the options of a local Java process.
    """
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if is_submitted():
        return _submitted()
    os.environ["JAVA_HOME"] = str(java_home())
    where = master or "local[*]"
    own = OWN | _heap(memory) | _java(where, rows) | processes.on_this_machine(where)
    builder = SparkSession.builder.appName(name).master(where)
    for key, value in (RELIED_ON | SQL | own | dict(conf or {})).items():
        builder = builder.config(key, value)
    with semq_errors(SparkAway, master=where):
        return builder.getOrCreate()


@contextmanager
def semq_errors(kind: type[SemqError] = SparkFailed, **facts: Any) -> Iterator[None]:
    """Convert an exception of Spark to an error with a code and the significant line of its message."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        java = getattr(error, "java_exception", None)
        reason = str(error if java is None else java.getMessage())
        raise kind(**facts, why=reason.strip().partition("\n")[0][:300]) from error


def _submitted() -> SparkSession:
    """Return the submitted session, with defaults for its unset settings."""
    spark = SparkSession.builder.getOrCreate()
    for key, value in RELIED_ON.items():
        spark.conf.set(key, value)
    for key, value in (SQL | SUBMITTED).items():
        _fit(spark, key, value)
    return spark


def _fit(spark: SparkSession, key: str, value: str) -> None:
    """Set the settings that may change in a running session, unless its starter has set them."""
    if not spark.sparkContext.getConf().contains(key):
        spark.conf.set(key.removeprefix("spark.hadoop."), value)  # the names of Hadoop's settings in a running session


def _java(master: str, rows: int) -> dict[str, str]:
    """Return options of the Java processes; those on this machine also get the log settings, which are files."""
    tuned = MANY if rows >= ROWS_TO_COMPILE_FOR else FEW
    here = f"{processes.log_options()} {tuned} {processes.archive_options()}".rstrip()
    return {
        "spark.driver.extraJavaOptions": here,
        "spark.executor.extraJavaOptions": here if master.startswith("local") else tuned,
    }


def fit_to(spark: SparkSession, rows: int) -> None:
    """Choose the number of shuffle partitions for this number of rows, so that one fits into memory."""
    partitions = max(2, -(-rows // ROWS_PER_PARTITION))
    _fit(spark, "spark.sql.shuffle.partitions", str(partitions))
    _fit(spark, "spark.sql.codegen.wholeStage", str(rows >= ROWS_TO_COMPILE_FOR).lower())


def small_table(spark: SparkSession, rows: Iterable[Sequence[Any]], **columns: pa.DataType) -> DataFrame:
    """Create a table from data of the driver, by Arrow: plain rows would start Python on each executor."""
    schema = pa.schema(list(columns.items()))
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(named, schema))


def _heap(memory: str | None) -> dict[str, str]:
    """Return the driver's heap: the option, else enough for one task per core, at most a third of the machine's memory.

    The machine has other users, and Spark spills to disk.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    fair = max(min(total // 3, 1024 + 512 * len(os.sched_getaffinity(0))), 1024)
    return {"spark.driver.memory": memory or f"{fair}m"}
