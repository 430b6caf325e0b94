"""The Spark session: quiet, in UTC, strict about types, with the right Java.

On local cores the session is made here, with the Java processes of ``processes``; under ``spark-submit`` the one that
was submitted is used, and of what belongs to SQL only what it does not state is set. The job uses DataFrames alone, so
it does not care which it is; all that runs on executors is Java.
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
from spark_reconcile import processes
from spark_reconcile.errors import SparkAway, SparkFailed
from spark_reconcile.java import java_home

ROWS_PER_PARTITION = 400_000
ROWS_TO_COMPILE_FOR = 200_000  # below, compiling a query takes longer than interpreting it
# How our own Java process compiles and collects, for few lines and for many. HotSpot interprets for ever what is longer
# than 8,000 bytes of its code, and what Spark writes for the facts is.
FEW = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MANY = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"

# What the verdicts rest on: nobody else decides it.
RELIED_ON = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
# What is fitting where whoever submitted the job says nothing else.
SQL = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# For a Java process whose options are not ours: rather several short methods than one that is interpreted.
SUBMITTED = {"spark.sql.codegen.hugeMethodLimit": "8000"}
# What must be said before the Java process starts, and only for one that we start ourselves.
OWN = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.heartbeatInterval": "60s",  # a machine that is busy or was asleep is not a lost executor
    "spark.network.timeout": "600s",
    "spark.sql.files.maxPartitionBytes": "16m",  # some 800,000 lines: what two tasks hold fits into a small heap
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
    """The session to work with. Raises NoJava, SparkAway.

    ``master``: where to run, ``local[*]`` if nothing else says so. ``memory``: heap of a local run, such as ``4g``.
    ``rows``: lines that are to be read, by which our own Java process is tuned.
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
    with told(SparkAway, master=where):
        return builder.getOrCreate()


@contextmanager
def told(kind: type[SemqError] = SparkFailed, **facts: Any) -> Iterator[None]:
    """Whatever Spark raises inside as an error with a code, and the line of it that says something."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        java = getattr(error, "java_exception", None)
        said = str(error if java is None else java.getMessage())
        raise kind(**facts, why=said.strip().partition("\n")[0][:300]) from error


def _submitted() -> SparkSession:
    """The session that was submitted, with what it does not say itself."""
    spark = SparkSession.builder.getOrCreate()
    for key, value in RELIED_ON.items():
        spark.conf.set(key, value)
    for key, value in (SQL | SUBMITTED).items():
        _fit(spark, key, value)
    return spark


def _fit(spark: SparkSession, key: str, value: str) -> None:
    """Set what may change while a session lasts, unless whoever started it has stated it."""
    if not spark.sparkContext.getConf().contains(key):
        spark.conf.set(key.removeprefix("spark.hadoop."), value)  # so Hadoop's are named once a session is there


def _java(master: str, rows: int) -> dict[str, str]:
    """Options of the Java processes: of all those that we can be sure to see the same files, where logs go, too."""
    tuned = MANY if rows >= ROWS_TO_COMPILE_FOR else FEW
    here = f"{processes.log_options()} {tuned}"
    return {
        "spark.driver.extraJavaOptions": here,
        "spark.executor.extraJavaOptions": here if master.startswith("local") else tuned,
    }


def fit_to(spark: SparkSession, rows: int) -> None:
    """Choose the number of shuffle partitions for so many rows, so that one of them fits into memory comfortably."""
    partitions = max(2, -(-rows // ROWS_PER_PARTITION))
    _fit(spark, "spark.sql.shuffle.partitions", str(partitions))
    _fit(spark, "spark.sql.codegen.wholeStage", str(rows >= ROWS_TO_COMPILE_FOR).lower())


def small_table(spark: SparkSession, rows: Iterable[Sequence[Any]], **columns: pa.DataType) -> DataFrame:
    """A table of what the driver itself knows. By Arrow: plain rows make Spark start a Python on each executor."""
    schema = pa.schema(list(columns.items()))
    named = [dict(zip(columns, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(named, schema))


def _heap(memory: str | None) -> dict[str, str]:
    """The driver's: what is asked for, else enough for a task on each core, but at most a third of the machine.

    Others live here too, and Spark spills.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    fair = max(min(total // 3, 1024 + 512 * len(os.sched_getaffinity(0))), 1024)
    return {"spark.driver.memory": memory or f"{fair}m"}
