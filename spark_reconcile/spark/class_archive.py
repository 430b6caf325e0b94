"""Makes the archive of Java classes: a short Spark run writes the classes that it has loaded to a file, which later
Java processes map into memory.

    python -m spark_reconcile.spark.class_archive    # by ./run setup, once: some 30 s of processor time, 180 MB

``processes`` defines the path of the archive and the options of Java processes that use it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from spark_reconcile.spark import processes, session
from spark_reconcile.spark.java import wheel_java


def make(archive: Path = processes.CLASS_ARCHIVE) -> bool:
    """Run a query, write a file and read it in a session that ends with this call. Return whether there is an archive.

    Raises NoJava, SparkAway.
    """
    own = wheel_java()
    if own is not None and not (own.parents[1] / "lib" / "server" / "classes.jsa").exists():
        # The archive extends Java's own archive, which the wheel lacks.
        subprocess.run([own, "-Xshare:dump"], capture_output=True, check=False)
    beside = archive.with_name(f"{archive.name}.{os.getpid()}")
    written = f"{processes.log_options()} {session.FEW} {processes.QUIET} -XX:ArchiveClassesAtExit={beside}"
    conf = {"spark.driver.extraJavaOptions": written}
    spark = session.start("semq-classes", master="local[1]", memory="768m", conf=conf)
    numbers = session.small_table(spark, [(1, "a"), (2, "b")], number=pa.int64(), name=pa.string())
    file = str(processes.folder() / "classes.parquet")
    numbers.groupBy("name").count().join(numbers, "name").orderBy("number").write.parquet(file)
    spark.read.parquet(file).collect()
    processes.end()
    if beside.is_file():
        beside.replace(archive)
    return archive.is_file()


if __name__ == "__main__":
    sys.exit(0 if make() else 1)
