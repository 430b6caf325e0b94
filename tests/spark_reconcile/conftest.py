"""One Spark session for all tests of the reconciliation, small and quick to start; and ledgers in a few words.

| fixture   | scope   | what the test gets                                                        |
|-----------|---------|---------------------------------------------------------------------------|
| `spark`   | session | a local session on two cores                                              |
| `clock`   | test    | a clock at noon of the day after the business date            |
| `office`  | test    | a hub and institutions whose ledgers are written as text; see ``Office``  |
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_reconcile.spark import session
from tests.spark_reconcile.office import Office, StandingClock

# Compiling such small queries takes longer than running them; test_judging compares both ways.
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session.start("tests", master="local[2]", memory="768m", conf=SMALL)
    yield made
    made.stop()


@pytest.fixture
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture
def office(tmp_path: Path, clock: StandingClock) -> Office:
    return Office(tmp_path, clock)
