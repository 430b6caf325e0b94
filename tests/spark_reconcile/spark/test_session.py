"""Spark with separate executors, under ``spark-submit``, on Kubernetes and YARN; files and log records of a session."""

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
import yaml
from pyspark.sql import SparkSession

from semq.store.rows import Event, Side
from spark_reconcile import commands
from spark_reconcile.errors import SparkAway
from spark_reconcile.progress import Progress
from spark_reconcile.run.job import RunRequest, run
from spark_reconcile.spark import processes, session
from spark_reconcile.spark.java import java_home
from tests.deploy.programs import KUBECTL
from tests.spark_reconcile.office import DAY, FORWARD_COURSE, STORE_COURSE, Office, OfficeMessage

ROOT = Path(__file__).parents[3]
TABLES = ("verdicts", "exceptions", "pairs")


def call(*command: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [str(word) for word in command]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def published(report: str) -> dict[str, Any]:
    """Return the rows of a run's tables, and its result without name and times."""
    folder = Path(report).parent
    tables = {name: ds.dataset(folder / f"{name}.parquet", partitioning=None).to_table() for name in TABLES}
    rows = {name: sorted(map(str, table.to_pylist())) for name, table in tables.items()}
    result = json.loads((folder / "_RESULT.json").read_text())
    return rows | {name: result[name] for name in ("outcome", "verdicts", "carried", "deeds", "fingerprint")}


def test_separate_executors_publish_the_result_of_a_single_process(office: Office, spark: SparkSession) -> None:
    for number in range(1, 13):
        office.write(OfficeMessage(number, at=number * 3_600_000), FORWARD_COURSE if number % 2 else STORE_COURSE)
    office.write(OfficeMessage(20), "S:ACCEPTED@0 S:SENT@3")
    office.write(OfficeMessage(21), FORWARD_COURSE.replace("R:SENDER_ACKED@120", ""))
    office.add("1.b", OfficeMessage(3), Side.RECEIVER, Event.RECEIVED, 50)
    office.extract()
    expected = run(office.settings, RunRequest(DAY), office.clock, Progress(office.clock), spark)
    done = call(
        sys.executable, "-P", "-m", "spark_reconcile", "run", "--master", "local-cluster[2,1,1024]", "--json",
        "--business-date", DAY, "--extracts", office.settings.extracts, "--reports", office.root / "cluster",
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    result = json.loads(done.stdout)
    assert published(result["report"]) == published(expected.report)
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == [str(DAY), "report"]


def test_the_end_of_java_is_reported_as_a_failure_of_spark() -> None:
    program = """
from spark_reconcile.errors import SparkFailed
from spark_reconcile.spark import session
spark = session.start("test", master="local[1]")
java = spark.sparkContext._gateway.proc
java.kill()
java.wait()
try:
    with session.semq_errors():
        spark.sql("SELECT 1").collect()
except SparkFailed as error:
    print(error.facts["why"])
"""
    done = call(sys.executable, "-P", "-c", program)
    assert (done.returncode, done.stdout.strip().partition(";")[0]) == (0, "the Java process has ended"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("rows", [0, session.ROWS_TO_COMPILE_FOR])
@pytest.mark.parametrize("master", ["local[*]", "spark://somewhere:7077"])
def test_java_ends_when_its_memory_is_used_up(master: str, rows: int) -> None:
    options = session._java(master, rows)
    assert all("-XX:+ExitOnOutOfMemoryError" in text.split() for text in options.values())


def test_only_processes_of_this_machine_get_local_addresses() -> None:
    assert processes.local_settings("spark://somewhere:7077") == {}
    settings = processes.local_settings("local[2]")
    assert settings.pop("spark.local.dir") == str(processes.folder())
    assert set(settings.values()) == {processes.LOOPBACK}


def test_only_messages_of_py4j_are_suppressed() -> None:
    records = [
        logging.LogRecord("root", logging.ERROR, f"/lib/{path}.py", 1, "Exception while sending command.", (), None)
        for path in ("py4j/java_gateway", "semq/clock")
    ]
    assert list(map(processes.is_not_of_py4j, records)) == [False, True]


# A program that makes its folder of temporary files, and waits.
WAITING_PROGRAM = (
    "import sys; from spark_reconcile.spark import processes; print(processes.folder(), flush=True); sys.stdin.read()"
)


def test_files_of_a_killed_process_are_removed_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [
        subprocess.Popen([sys.executable, "-P", "-c", WAITING_PROGRAM], env=environment, **pipes) for _ in range(2)
    ]
    killed, living = (Path(process.stdout.readline().strip()) for process in started if process.stdout)
    being_made, foreign = tmp_path / "semq-spark-made", tmp_path / "semq-spark-link"
    being_made.mkdir()
    foreign.symlink_to(tmp_path / "elsewhere")
    started[0].kill()
    started[0].communicate()
    try:
        processes.remove_dead(tmp_path)
        assert not killed.exists()
        assert living.exists()
        assert being_made.exists()
        assert foreign.is_symlink()
    finally:
        started[1].communicate()
    assert not living.exists()


SUBMITTED_PROGRAM = """
import sys
import pyarrow as pa
from spark_reconcile import commands
from spark_reconcile.spark import session
spark = session.start(rows=10)
session.fit_to(spark, 10)
assert session.small_table(spark, [(1,), (2,)], number=pa.int64()).repartition(2).count() == 2
print({key.removeprefix("spark.sql."): spark.conf.get(key) for key in sys.argv[1].split()})
sys.exit(commands.main(["run", "--business-date", "2026-11-20", "--extracts", "nowhere", "--reports", sys.argv[2]]))
"""
# Setting | value of the submitter (empty: none), effective value.
SETTINGS = {
    "spark.sql.ansi.enabled": ("false", "true"),
    "spark.sql.parquet.compression.codec": ("snappy", "snappy"),
    "spark.sql.codegen.hugeMethodLimit": ("", "8000"),
    "spark.sql.shuffle.partitions": ("7", "7"),
    "spark.sql.codegen.wholeStage": ("", "false"),
    "spark.sql.codegen.factoryMode": ("", "NO_CODEGEN"),
    "spark.sql.adaptive.enabled": ("true", "true"),
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": ("", "false"),
}


def test_a_submitted_run_keeps_its_settings_except_the_fixed_ones_and_its_exit_status(tmp_path: Path) -> None:
    script = tmp_path / "submitted.py"
    script.write_text(SUBMITTED_PROGRAM)
    conf = [f"--conf={key}={value}" for key, (value, _) in SETTINGS.items() if value]
    submit = Path(sys.executable).with_name("spark-submit")
    done = call(
        submit, "--master", "local[1]", "--driver-java-options", f"{session.FEW_LINES} {processes.archive_options()}",
        "--conf", "spark.ui.enabled=false", "--conf", f"spark.pyspark.driver.python={sys.executable}",
        "--conf", "spark.pyspark.python=no-such-python",
        *conf, script, " ".join(SETTINGS), tmp_path / "reports",
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    assert str({key.removeprefix("spark.sql."): value for key, (_, value) in SETTINGS.items()}) in done.stdout


def test_a_failed_start_of_spark_is_reported(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    def refuse(*_: object) -> None:
        spark.sparkContext._jvm.org.apache.spark.util.Utils.checkHostPort("nowhere")  # type: ignore[union-attr]

    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", refuse)
    with pytest.raises(SparkAway, match="nowhere"):
        session.start(master="local[1]")


SURROUNDINGS = """
hostname no-address-has-this-name
mount -t tmpfs -o noexec,mode=1777 none "$TMPDIR"
exec unshare --user --map-user=12345 --map-group=12345 env -u HOME -u XDG_CACHE_HOME -u USER -u LOGNAME LC_ALL=C "$@"
"""
WRITE_AND_READ = """
import os, sys, pyarrow as pa
from spark_reconcile.spark import session
from spark_reconcile.storage import Place
spark, place = session.start(master="local[1]", memory="768m"), Place.at(sys.argv[1])
session.small_table(spark, [(7,)], number=pa.int64()).write.parquet(place.uri, compression="zstd")
print(os.geteuid(), spark.read.parquet(place.uri_to_read).first()[0])
"""


def test_spark_starts_without_account_home_locale_address_and_programs_in_the_temporary_folder(tmp_path: Path) -> None:
    """A service in a container may have an arbitrary user id, LC_ALL=C, TMPDIR with noexec, a name without an address."""
    spool = tmp_path / "spool"
    spool.mkdir()
    namespaces = ["unshare", "--map-root-user", "--mount", "--uts"]
    if subprocess.run([*namespaces, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this kernel gives its users no namespaces")
    environment = {**os.environ, "TMPDIR": str(spool)}
    environment.pop("SPARK_LOCAL_IP", None)
    shell = [
        *namespaces,
        "sh",
        "-ec",
        SURROUNDINGS,
        "sh",
        sys.executable,
        "-c",
        WRITE_AND_READ,
        str(tmp_path / "订单 [2]"),
    ]
    started = subprocess.run(shell, capture_output=True, text=True, check=False, env=environment)
    assert started.stdout.split() == ["12345", "7"], started.stderr


DEPLOYED = ROOT / "deploy" / "spark"
MAPS = ("spark.kubernetes.executor.volumes.", "spark.yarn.appMasterEnv.")  # prefixes of settings with any name


def deployed(name: str) -> Iterator[list[str]]:
    """Yield the settings of a file in ``deploy/spark``, each with its value."""
    for line in (DEPLOYED / name).read_text().splitlines():
        if not line.startswith("#"):
            yield line.split(maxsplit=1)


def test_deployed_settings_are_known_to_spark(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    for name in ("k8s.Config$", "yarn.config.package$"):
        java.java.lang.Class.forName(f"org.apache.spark.deploy.{name}")  # registers its settings
    settings = {key: value for name in ("spark-defaults.conf", "yarn.conf") for key, value in deployed(name)}
    conf = java.org.apache.spark.SparkConf(False)
    for key, value in settings.items():
        conf.set(key, value)
        if not key.startswith((*MAPS, "spark.master")):
            entry = java.org.apache.spark.internal.config.ConfigEntry.findEntry(key)
            assert entry is not None, key
            conf.get(entry)  # raises for a value of the wrong type


def test_spark_accepts_the_submission_to_yarn(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    words = ["--properties-file", str(DEPLOYED / "yarn.conf"), str(ROOT / "spark_reconcile" / "__main__.py"), "run"]
    python, deploy = java.org.apache.spark.api.python.PythonUtils, java.org.apache.spark.deploy
    variables = python.toScalaMap({"HADOOP_CONF_DIR": "/etc/hadoop/conf"})
    arguments = deploy.SparkSubmitArguments(python.toSeq(words), variables)
    prepared = deploy.SparkSubmit().prepareSubmitEnvironment(arguments, java.scala.Option.empty())
    given = [prepared._1().apply(index) for index in range(prepared._1().size())]
    assert prepared._4() == "org.apache.spark.deploy.yarn.YarnClusterApplication"
    assert given[:2] == ["--primary-py-file", f"file:{words[2]}"]
    assert given[-2:] == ["--arg", "run"]
    assert prepared._3().get("spark.yarn.dist.archives").endswith("/semq.tar.gz#semq")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_kubectl_renders_the_driver() -> None:
    done = subprocess.run([str(KUBECTL), "kustomize", str(DEPLOYED)], capture_output=True, text=True, check=True)
    rendered = {resource["kind"]: resource for resource in yaml.safe_load_all(done.stdout)}
    assert set(rendered["ConfigMap"]["data"]) == {"spark-defaults.conf", "executor.yaml"}
    template = rendered["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    account = rendered["ServiceAccount"]["metadata"]["name"]
    assert template["serviceAccountName"] == rendered["RoleBinding"]["subjects"][0]["name"] == account
    assert template["volumes"][0]["configMap"]["name"] == rendered["ConfigMap"]["metadata"]["name"]
    assert rendered["RoleBinding"]["roleRef"]["name"] == rendered["Role"]["metadata"]["name"]
    arguments = template["containers"][0]["args"]
    assert commands.parser().parse_args(arguments[1:]).master == arguments[-1]
