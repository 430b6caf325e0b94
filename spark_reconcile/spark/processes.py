"""The Java processes of a local session: their files, and their end together with this process.

On local cores there is one process; ``local-cluster[EXECUTORS,CORES,MIB]`` has one more for each executor.
"""

import atexit
import fcntl
import logging
import os
import re
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from subprocess import TimeoutExpired

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext

from spark_reconcile.spark.java import folder_for_programs, home_folder, runs_programs

END_S = 60.0  # longest wait for Java to end by itself
# Classes of Spark, loaded and checked (``class_archive``): a start takes 4.5 s of processor time instead of 10.6. Java
# ignores an archive that does not fit its version and class path.
CLASS_ARCHIVE = Path(sys.prefix) / "semq-spark-classes.jsa"
QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
LOOPBACK = "127.0.0.1"
PREFIX, LOCK = "semq-spark-", "lock"
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*[0-9]+\s*,\s*[0-9]+\s*,\s*([0-9]+)\s*]")
# Only errors, on stderr. Without an entry for the gateway, Spark would print a line about its log level.
_LOG = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.shutdown.name = org.apache.spark.util.ShutdownHookManager
logger.shutdown.level = off
"""


def local_settings(master: str) -> dict[str, str]:
    """Return settings for a local master; empty for other masters, whose processes need this machine's address.

    Also set, in the environment, SPARK_LOCAL_IP if unset, because the name of the machine may have no address, and
    for a local cluster SPARK_HOME.
    """
    if not master.startswith("local"):
        return {}
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    settings = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK, "spark.local.dir": str(folder())}
    cluster = _LOCAL_CLUSTER.fullmatch(master)
    if cluster:
        os.environ["SPARK_HOME"] = str(_home())
        settings["spark.executor.memory"] = f"{cluster[1]}m"
    return settings


@cache
def folder() -> Path:
    """Return a folder for the Java processes and their spilled data; it is removed when this process ends.

    A held lock in the folder shows that this process runs. Folders of killed processes are removed here.
    """
    root = Path(tempfile.gettempdir())
    remove_dead(root)
    created = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    new_lock = created / f"{LOCK}.new"
    # The descriptor stays open, and so the lock is held, until this process ends.
    fcntl.flock(os.open(new_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), fcntl.LOCK_EX)
    new_lock.rename(created / LOCK)  # so that an unheld lock is never visible
    atexit.register(_end, created)
    return created


def remove_dead(root: Path) -> None:
    """Remove the folders of killed processes: those whose lock is not held."""
    for lock in root.glob(f"{PREFIX}*/{LOCK}"):
        try:
            if lock.lstat().st_uid != os.getuid():
                continue
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # another process has removed it
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(descriptor)


@cache
def log_options() -> str:
    """Return the Java argument with the log settings."""
    file = folder() / "log4j2.properties"
    file.write_text(_LOG)
    return f"-Dlog4j2.configurationFile={file.as_uri()}"


@cache
def library_options() -> str:
    """Return Java arguments: the folder from which Java maps the libraries of Spark's codecs, and a missing home."""
    libraries = folder()
    if not runs_programs(libraries):
        libraries = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folder_for_programs()))
        atexit.register(shutil.rmtree, libraries, ignore_errors=True)
    home = "" if home_folder(os.environ) else f" -Duser.home={folder()}"
    return f"-Djava.io.tmpdir={libraries}{home}"


def archive_options(archive: Path = CLASS_ARCHIVE) -> str:
    """Return the Java arguments to use the archive of classes; none without an archive."""
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto {QUIET}" if archive.is_file() else ""


@cache
def _home() -> Path:
    """Return a SPARK_HOME with its own ``work`` folder, where executors of a local cluster write their logs."""
    installed = Path(os.environ.get("SPARK_HOME") or Path(str(pyspark.__file__)).parent).resolve()
    home = folder() / "home"
    home.mkdir()
    for entry in installed.iterdir():
        if entry.name != "work":
            (home / entry.name).symlink_to(entry)
    return home


def _end(created: Path) -> None:
    end()
    shutil.rmtree(created, ignore_errors=True)


def end(limit_s: float = END_S) -> None:
    """Stop Spark and wait for its process; kill it after ``limit_s`` seconds."""
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    if context is not None:
        with suppress(ConnectionError, Py4JError):  # the process may have ended
            context.stop()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()  # Java ends when its standard input is closed
        try:
            process.wait(limit_s)
        except TimeoutExpired:
            process.kill()
            process.wait()


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Filter that drops the records of py4j: if Java ends first, it logs a traceback and raises the error, too."""
    return "py4j" not in Path(record.pathname).parts
