"""Spark's own master with two workers: what fails, and how the job is submitted, change no verdict."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.reconciliation.invention import generate
from spark_reconcile.days import Calendar
from spark_reconcile.progress import Progress
from spark_reconcile.run.job import RunRequest, run
from spark_reconcile.settings import ReconcileSettings
from spark_reconcile.spark import session
from spark_reconcile.storage import Place
from tests.spark_reconcile.office import DAY, StandingClock
from tests.spark_reconcile.spark.standalone import ROOT, SPARK_HOME, StandaloneCluster, standalone
from tests.spark_reconcile.spark.test_session import published
from tests.waiting import until_sync

MESSAGES = 4_000  # enough lines for several tasks and exchanges between them
PATIENCE_S = 900.0
ARROW_ACCESS = "--add-opens=java.base/java.nio=ALL-UNNAMED --add-opens=java.base/sun.nio.ch=ALL-UNNAMED"
# The program as it is submitted, which shows where its packages are from.
PROGRAM = """import sys
import spark_reconcile
from spark_reconcile.commands import main
print(spark_reconcile.__file__, file=sys.stderr, flush=True)
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def extracts(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> tuple[Path, dict[str, Any]]:
    """Return a folder with extracts, and what a single process publishes of them: the planted verdicts."""
    folder = tmp_path_factory.mktemp("standalone")
    place = Place.at(folder / "extracts")
    truth = generate(place, Place.at(folder / "truth"), DAY, Calendar(), StandingClock(), MESSAGES, nodes=4, defects=20)
    assert truth.rows >= session.ROWS_TO_PLAN_FOR
    clock = StandingClock()
    settings = ReconcileSettings(extracts=str(place), reports=str(folder / "single"))
    expected = published(run(settings, RunRequest(DAY), clock, Progress(clock), spark).report)
    assert {name: count for name, count in expected["verdicts"].items() if count} == truth.verdicts
    return folder, expected


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    with standalone(tmp_path) as cluster:
        yield cluster


def arguments(folder: Path, reports: Path) -> list[str]:
    return [
        "run", "--business-date", DAY.isoformat(), "--extracts", str(folder / "extracts"), "--reports", str(reports),
        "--json",
    ]  # fmt: skip


def result_of(reports: Path) -> dict[str, Any]:
    """Return what the only run of a folder has published."""
    (pointer,) = reports.glob("*/CURRENT")
    return published(str(pointer.parent / f"run={pointer.read_text().strip()}" / "report.html"))


def test_a_killed_executor_and_a_lost_host_change_no_verdict(
    cluster: StandaloneCluster, extracts: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    folder, expected = extracts
    reports = tmp_path / "reports"
    first, second = cluster.workers
    with cluster.start(
        sys.executable, "-P", "-m", "spark_reconcile", *arguments(folder, reports), "--master", cluster.url
    ) as job:

        def stage(name: str) -> bool:
            assert job.poll() is None, job.communicate()
            return bool(list(reports.glob(f"*/run=*/_staging/{name}")))

        until_sync(lambda: stage("survey") and first.executors and second.executors, PATIENCE_S)
        os.kill(first.executors[0], signal.SIGKILL)
        until_sync(lambda: stage("facts"), PATIENCE_S)  # their lines are being exchanged
        second.lose()
        assert job.poll() is None
        _, errors = job.communicate(timeout=PATIENCE_S)
    assert job.returncode == 3, errors
    assert first.started_executors > 1  # another one for the killed one
    assert result_of(reports) == expected


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the program, and the packages as a zip."""
    folder = tmp_path_factory.mktemp("shipped")
    (folder / "reconcile.py").write_text(PROGRAM)
    for package in ("semq", "spark_reconcile"):
        leave_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / "packages" / package, ignore=leave_out)
    shutil.make_archive(str(folder / "semq"), "zip", folder / "packages")
    return folder


def submitted(mode: str, folder: Path) -> list[str]:
    """Return the words of ``spark-submit`` for a mode. Spark's own master takes Java programs only in cluster mode, of
    which one is Spark's runner of Python programs."""
    program, packages = str(folder / "reconcile.py"), str(folder / "semq.zip")
    if mode == "client":
        return ["--py-files", packages, program]
    (core,) = (SPARK_HOME / "jars").glob("spark-core_*.jar")
    runner = ["--class", "org.apache.spark.deploy.PythonRunner", str(core)]
    waits = ["--conf", "spark.standalone.submit.waitAppCompletion=true"]
    return ["--deploy-mode", "cluster", *waits, *runner, program, packages]


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_submitted_run_with_shipped_packages_has_the_same_verdicts(
    cluster: StandaloneCluster, extracts: tuple[Path, dict[str, Any]], shipped: Path, tmp_path: Path, mode: str
) -> None:
    folder, expected = extracts
    reports = tmp_path / "reports"
    submit = Path(sys.executable).with_name("spark-submit")
    words = [*submitted(mode, shipped), *arguments(folder, reports)]
    # In cluster mode, Spark's own master does not give the driver the access to Java's buffers that Arrow needs.
    conf = {"spark.driver.extraJavaOptions": f"{session.FEW_LINES} {ARROW_ACCESS}"} if mode == "cluster" else {}
    with cluster.start(submit, "--master", cluster.url, *words, conf=conf, PYTHONPATH="") as job:
        _, errors = job.communicate(timeout=PATIENCE_S)
    outputs = [errors, *(file.read_text() for file in tmp_path.rglob("driver-*/stderr"))]
    assert any(str(shipped / "semq.zip") in text for text in outputs), outputs
    assert result_of(reports) == expected
    if mode == "client":  # in cluster mode, the master only knows whether the driver failed
        assert job.returncode == 3
