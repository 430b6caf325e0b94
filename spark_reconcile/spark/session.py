"""The Spark session: few log lines, UTC, ANSI types, a suitable Java.

In a session of ``spark-submit``, only the settings FIXED are replaced, and missing SQL settings get a default. The job
uses DataFrames only, so that executors run nothing but Java.
"""

import logging
import os
import pwd
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from semq.errors import SemqError
from spark_reconcile.errors import SparkAway, SparkFailed
from spark_reconcile.spark import processes
from spark_reconcile.spark.java import java_home

ROWS_PER_PARTITION = 400_000
ROWS_TO_COMPILE_FOR = 200_000  # with fewer lines, compiling a query takes longer than interpreting it
ROWS_TO_PLAN_FOR = 20_000  # with fewer lines, one task, one plan and interpreted expressions save a fifth of the time
# Options of a local Java process for few and for many ledger lines. By default, HotSpot compiles no methods longer than
# 8,000 bytes, and the code that Spark generates for the facts is longer. Its slow second compiler gets only methods
# that are called ten times as often as by default: with a million messages it would take a third of the processor time,
# much of it for planner and generator of Spark, which gain nothing.
# Without ExitOnOutOfMemoryError, a process that has used up its memory hangs instead of ending.
FEW_LINES = "-XX:+ExitOnOutOfMemoryError -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MANY_LINES = (
    "-XX:+ExitOnOutOfMemoryError -XX:+UseParallelGC -XX:-DontCompileHugeMethods -XX:Tier4InvocationThreshold=50000 "
    "-XX:Tier4MinInvocationThreshold=6000 -XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)

# Settings on which the verdicts depend.
FIXED = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}
SQL_DEFAULTS = {
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # A small table in front of the hash table saves nothing, because nearly every message has a row of its own.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # By default, ten thousand ledgers are looked up by as many tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
}
# A submitted Java process may lack -XX:-DontCompileHugeMethods. This setting lets Spark generate shorter methods.
SUBMITTED_DEFAULTS = {"spark.sql.codegen.hugeMethodLimit": "8000"}
# Settings needed before the start of a local Java process.
LOCAL_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.executor.heartbeatInterval": "60s",  # so that no executor on a busy or suspended machine counts as lost
    "spark.network.timeout": "600s",
    "spark.sql.files.maxPartitionBytes": "16m",  # some 800,000 lines, so that two tasks fit into a small heap
    "spark.sql.files.openCostInBytes": "256k",  # by default 4m: a task for each four of ten thousand small ledgers
    "spark.io.compression.codec": "lz4",
}


def is_submitted() -> bool:
    """Whether ``spark-submit`` started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def start(
    name: str = "semq-reconcile",
    *,
    master: str | None = None,
    memory: str | None = None,
    rows: int = 0,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the session. Raises NoJava, SparkAway. Under ``spark-submit`` the arguments have no effect.

    ``master``: by default ``local[*]``. ``memory``: heap of a local run, such as ``4g``. ``rows``: number of lines to
    read, for the options of a local Java process. ``conf``: further settings.
    """
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(processes.is_not_of_py4j)
    if is_submitted():
        return _submitted()
    os.environ["JAVA_HOME"] = str(java_home())
    os.environ["LC_ALL"] = "C.UTF-8"  # in which Java encodes the names of files; with C it refuses all other than ASCII
    master = master or "local[*]"
    local = LOCAL_DEFAULTS | _heap(memory) | _java(master, rows) | processes.local_settings(master)
    settings = SparkConf().setAppName(name).setMaster(master)
    settings.setAll(list((FIXED | SQL_DEFAULTS | local | dict(conf or {})).items()))
    with semq_errors(SparkAway, master=master):
        SparkContext._ensure_initialized(conf=settings)
        _name_user()
        return SparkSession.builder.config(conf=settings).getOrCreate()


def _name_user() -> None:
    """Give Hadoop a name for a user id without an account: it needs one, and asks the operating system only."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        assert SparkContext._jvm is not None
        users = SparkContext._jvm.org.apache.hadoop.security.UserGroupInformation
        users.setLoginUser(users.createRemoteUser(f"uid-{os.geteuid()}"))


@contextmanager
def semq_errors(kind: type[SemqError] = SparkFailed, **facts: Any) -> Iterator[None]:
    """Convert an exception of Spark to an error of class ``kind``."""
    try:
        yield
    except (ConnectionError, Py4JNetworkError) as error:
        raise kind(**facts, why="the Java process has ended; a reason may be printed above") from error
    except (PySparkException, Py4JError) as error:
        java = getattr(error, "java_exception", None)
        reason = str(error if java is None else java.getMessage())
        raise kind(**facts, why=reason.strip().partition("\n")[0][:300]) from error


def _submitted() -> SparkSession:
    spark = SparkSession.builder.getOrCreate()
    for key, value in FIXED.items():
        spark.conf.set(key, value)
    for key, value in (SQL_DEFAULTS | SUBMITTED_DEFAULTS).items():
        _set_default(spark, key, value)
    return spark


def _set_default(spark: SparkSession, key: str, value: str) -> None:
    if not spark.sparkContext.getConf().contains(key):
        # A running session knows Hadoop's settings without the prefix.
        spark.conf.set(key.removeprefix("spark.hadoop."), value)


def _java(master: str, rows: int) -> dict[str, str]:
    """Return options of the Java processes. Options that name files are only for processes on this machine."""
    tuning = MANY_LINES if rows >= ROWS_TO_COMPILE_FOR else FEW_LINES
    files = f"{processes.log_options()} {processes.library_options()}"
    local = f"{files} {tuning} {processes.archive_options()}".rstrip()
    return {
        "spark.driver.extraJavaOptions": local,
        "spark.executor.extraJavaOptions": local if master.startswith("local") else tuning,
    }


def fit_to(spark: SparkSession, rows: int) -> None:
    """Fit partitions, compilation and plans of queries to a number of ledger lines. The configuration has priority."""
    are_few = rows < ROWS_TO_PLAN_FOR
    partitions = 1 if are_few else max(2, -(-rows // ROWS_PER_PARTITION))
    _set_default(spark, "spark.sql.shuffle.partitions", str(partitions))
    _set_default(spark, "spark.sql.codegen.wholeStage", str(rows >= ROWS_TO_COMPILE_FOR).lower())
    _set_default(spark, "spark.sql.codegen.factoryMode", "NO_CODEGEN" if are_few else "FALLBACK")
    _set_default(spark, "spark.sql.adaptive.enabled", str(not are_few).lower())


def small_table(spark: SparkSession, rows: Iterable[Sequence[object]], **columns: pa.DataType) -> DataFrame:
    """Create a table from data of the driver. It uses Arrow: plain rows would start Python on each executor."""
    schema = pa.schema(list(columns.items()))
    records = [dict(zip(columns, row, strict=True)) for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(records, schema))


def _heap(memory: str | None) -> dict[str, str]:
    """Return the setting of the driver's heap: ``memory``, else enough for one task per core.

    The default is at most a third of the machine's memory, but at least 1 GiB: Spark spills to disk.
    """
    machine_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    needed_mib = 1024 + 512 * len(os.sched_getaffinity(0))
    heap_mib = max(min(machine_mib // 3, needed_mib), 1024)
    return {"spark.driver.memory": memory or f"{heap_mib}m"}
