"""Extracts that the released version wrote (``tests.versions.record``) have the verdicts that it knew."""

import json
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from spark_reconcile.settings import ReconcileSettings
from tests.spark_reconcile.date_verdicts import judge
from tests.spark_reconcile.office import DAY, StandingClock
from tests.versions.released import RECORDED


def test_extracts_of_the_released_version_are_judged_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    shutil.copytree(RECORDED / "extracts", tmp_path / "extracts")
    settings = ReconcileSettings(extracts=str(tmp_path / "extracts"), reports=str(tmp_path / "reports"))
    _, judged = judge(settings, DAY, StandingClock(), spark)
    verdicts = {row["verdict"]: row["count"] for row in judged.verdicts.groupBy("verdict").count().collect()}
    assert verdicts == json.loads((RECORDED / "verdicts.json").read_text())
