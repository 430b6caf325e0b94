"""Fixtures of the tests of the reconciliation.

| fixture  | scope   | value                                                                               |
|----------|---------|-------------------------------------------------------------------------------------|
| `spark`  | session | a local Spark session on two cores, quick to start                                  |
| `clock`  | test    | a clock that stays at noon of the day after the business date                       |
| `office` | test    | a hub and institutions whose ledgers are written in a short notation; see ``office`` |
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_reconcile.spark import session
from tests.spark_reconcile.office import Office, StandingClock

# Compiling small queries takes longer than interpreting them, and every task costs time. test_assessment also judges
# with compiled queries and two tasks.
INTERPRETED = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.files.openCostInBytes": "1024",  # several small files are one task
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session.start("tests", master="local[2]", memory="768m", conf=INTERPRETED)
    yield spark
    spark.stop()


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def office(tmp_path: Path, clock: StandingClock) -> Office:
    return Office(tmp_path, clock)
