"""The archive of Java classes: a short Spark run writes the classes that it has loaded to a file, for later processes.

python -m spark_reconcile.spark.class_archive    # called by ./run setup; takes some 30 s of processor time and 180 MB
"""

import os
import subprocess
import sys

import pyarrow as pa

from spark_reconcile.spark import processes, session
from spark_reconcile.spark.java import wheel_java

WRITING_S = 600.0  # time for Java to write the archive at its end: minutes on a busy machine


def make() -> bool:
    """Make the archive in a session that ends with this call. Return whether there is an archive.

    The session runs a query, writes a table and reads it, so that their classes are loaded. Raises NoJava, SparkAway.
    """
    archive = processes.CLASS_ARCHIVE
    java = wheel_java()
    if java is not None and not (java.parents[1] / "lib" / "server" / "classes.jsa").exists():
        # The archive extends Java's own archive, which the wheel lacks.
        subprocess.run([java, "-Xshare:dump"], capture_output=True, check=False)
    temporary = archive.with_name(f"{archive.name}.{os.getpid()}")
    write_archive = f"{processes.QUIET} -XX:ArchiveClassesAtExit={temporary}"
    conf = {"spark.driver.extraJavaOptions": f"{processes.log_options()} {session.FEW_LINES} {write_archive}"}
    spark = session.start("semq-classes", master="local[1]", memory="768m", conf=conf)
    numbers = session.small_table(spark, [(1, "a"), (2, "b")], number=pa.int64(), name=pa.string())
    file = str(processes.folder() / "classes.parquet")
    numbers.groupBy("name").count().join(numbers, "name").orderBy("number").write.parquet(file)
    spark.read.parquet(file).collect()
    processes.end(WRITING_S)
    if temporary.is_file():
        temporary.replace(archive)
    return archive.is_file()


if __name__ == "__main__":
    sys.exit(0 if make() else 1)
