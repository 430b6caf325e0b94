"""The Spark session: quiet, in UTC, strict about types, with the right Java and the right Python.

On local cores the session is made here; under ``spark-submit`` the one that was submitted is used, and only what
belongs to SQL is set. The job uses DataFrames alone, so it does not care which it is.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from spark_reconcile.java import java_home

ROWS_PER_PARTITION = 400_000
ROWS_TO_COMPILE_FOR = 200_000  # below, compiling a query takes longer than interpreting it
# How our own Java process compiles and collects, for few lines and for many. HotSpot interprets for ever what is longer
# than 8,000 bytes of its code, and what Spark writes for the facts is.
FEW = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MANY = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
_QUIET = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %p %c{1}: %m%n
logger.shutdown.name = org.apache.spark.util.ShutdownHookManager
logger.shutdown.level = off
"""

# What the job relies on, wherever it runs.
SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
}
# For a Java process whose options are not ours: rather several short methods than one that is interpreted.
SUBMITTED = {"spark.sql.codegen.hugeMethodLimit": "8000"}
# What must be said before the Java process starts, and only for one that we start ourselves.
LOCAL = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.heartbeatInterval": "60s",  # a machine that is busy or was asleep is not a lost executor
    "spark.network.timeout": "600s",
    "spark.sql.files.maxPartitionBytes": "16m",  # some 800,000 lines: what two tasks hold fits into a small heap
    "spark.io.compression.codec": "lz4",
}


def is_submitted() -> bool:
    """Whether ``spark-submit`` started this process, and with it the session's master and resources."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "SPARK_REMOTE" in os.environ


def start(
    name: str = "semq-reconcile",
    *,
    master: str | None = None,
    memory: str | None = None,
    rows: int = 0,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session to work with. Raises NoJava.

    ``master``: where to run, ``local[*]`` if nothing else says so. ``memory``: heap of a local run, such as ``4g``.
    ``rows``: lines that are to be read, by which our own Java process is tuned.
    """
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    builder = SparkSession.builder.appName(name)
    settings = dict(SQL)
    if not is_submitted():
        os.environ["JAVA_HOME"] = str(java_home())
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        java = MANY if rows >= ROWS_TO_COMPILE_FOR else FEW
        options = f"-Dlog4j2.configurationFile={_quiet_file().as_uri()} {java}"
        settings |= LOCAL | {
            "spark.driver.memory": memory or f"{_fair_share_mib()}m",
            "spark.driver.extraJavaOptions": options,
            "spark.executor.extraJavaOptions": options,
        }
        builder = builder.master(master or "local[*]")
    else:
        settings |= SUBMITTED
        if master:
            builder = builder.master(master)
    settings |= dict(conf or {})
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def fit_to(spark: SparkSession, rows: int) -> None:
    """Choose the number of shuffle partitions for so many rows, so that one of them fits into memory comfortably."""
    partitions = max(2, -(-rows // ROWS_PER_PARTITION))
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    spark.conf.set("spark.sql.codegen.wholeStage", str(rows >= ROWS_TO_COMPILE_FOR).lower())


def _fair_share_mib() -> int:
    """Enough for a task on each core, but at most a third of the machine: others live here too, and Spark spills."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return max(min(total // 3, 1024 + 512 * len(os.sched_getaffinity(0))), 1024)


def _quiet_file() -> Path:
    """Spark's log settings as a file: only errors, on stderr."""
    descriptor, name = tempfile.mkstemp(prefix="semq-spark-", suffix=".properties")
    with os.fdopen(descriptor, "w") as stream:
        stream.write(_QUIET)
    return Path(name)
