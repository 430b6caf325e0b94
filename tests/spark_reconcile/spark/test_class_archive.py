"""The archive of classes is used if there is one, and ignored without an error if it does not fit."""

import subprocess
from pathlib import Path

from pyspark.sql import SparkSession

from spark_reconcile.spark import processes
from spark_reconcile.spark.java import java_home


def test_without_an_archive_there_are_no_options(tmp_path: Path) -> None:
    assert processes.archive_options(tmp_path / "none.jsa") == ""


def test_an_archive_that_does_not_fit_is_ignored_without_a_message(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"of another Java")
    command = [str(java_home() / "bin" / "java"), *processes.archive_options(archive).split(), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert all("version" in line or "Runtime" in line or "VM" in line for line in done.stderr.splitlines())


def test_the_session_maps_the_archive_that_setup_has_made(spark: SparkSession) -> None:
    """Setup makes no archive on a Java that cannot write one."""
    process = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
    is_mapped = str(processes.CLASS_ARCHIVE) in Path(f"/proc/{process.pid}/maps").read_text()
    assert is_mapped is processes.CLASS_ARCHIVE.is_file()
