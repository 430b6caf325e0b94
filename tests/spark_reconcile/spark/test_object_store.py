"""Extracts and runs at ``s3://`` addresses: SEMQ uses Arrow's file system, Spark that of Hadoop for ``s3a``.

The store is a folder. Hadoop gets it by its file system for addresses of any scheme, because the connector for S3 is
not among Spark's jars.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import NativeFile, fs
from pyspark.sql import SparkSession

from spark_reconcile.progress import Progress
from spark_reconcile.run.job import RunRequest, run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, STORE_COURSE, Office, OfficeMessage, StandingClock
from tests.spark_reconcile.spark.test_session import published

ADDRESS = "s3://bucket/semq"
place_at, write_place = Place.at, Place.writer


@pytest.fixture
def store(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the folder at ADDRESS."""
    folder = tmp_path / "store" / "bucket" / "semq"
    folder.mkdir(parents=True)
    system = fs.SubTreeFileSystem(str(tmp_path / "store"), fs.LocalFileSystem())

    def at(address: str | Path) -> Place:
        text = str(address)
        return Place(system, text.removeprefix("s3://"), "s3a") if text.startswith("s3://") else place_at(address)

    @contextmanager
    def writer(place: Place) -> Iterator[NativeFile]:
        (tmp_path / "store" / place.path).parent.mkdir(parents=True, exist_ok=True)  # objects need no folders
        with write_place(place) as stream:
            yield stream

    monkeypatch.setattr(Place, "at", staticmethod(at))
    monkeypatch.setattr(Place, "writer", writer)
    settings = {
        "fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme",
        "fs.viewfs.overload.scheme.target.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
        "mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitterFactory",
        "fs.viewfs.mounttable.bucket.link./semq": folder.as_uri(),
    }
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield folder
    for key in settings:
        spark.conf.unset(key)


def test_a_run_at_addresses_of_a_store_publishes_the_result_of_one_on_a_disk(
    store: Path, spark: SparkSession, tmp_path: Path
) -> None:
    office = Office(store, StandingClock())
    for number in range(1, 13):
        office.write(OfficeMessage(number, at=number * 3_600_000), FORWARD_COURSE if number % 2 else STORE_COURSE)
    office.write(OfficeMessage(20), "S:ACCEPTED@0 S:SENT@3")
    office.extract()
    clock = StandingClock()
    on_disk = run(
        ReconcileSettings(extracts=str(store / "extracts"), reports=str(tmp_path / "reports")),
        RunRequest(DAY), clock, Progress(clock), spark,
    )  # fmt: skip
    in_store = run(
        ReconcileSettings(extracts=f"{ADDRESS}/extracts", reports=f"{ADDRESS}/reports"),
        RunRequest(DAY), clock, Progress(clock), spark,
    )  # fmt: skip
    assert in_store.report.startswith("s3a://bucket/semq/reports/")
    report = store.parent / in_store.report.removeprefix("s3a://bucket/")
    assert published(str(report)) == published(on_disk.report)
