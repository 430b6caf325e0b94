"""One published report for all tests of the page. Without a browser, the tests of the layout are left out."""

import pytest
from pyspark.sql import SparkSession

from tests.console import browsers
from tests.spark_reconcile.report.published import PublishedReports, publish

collect_ignore = [] if browsers.PROGRAM else ["test_layout.py"]


def pytest_report_header() -> list[str]:
    return [] if browsers.PROGRAM else ["report: test_layout.py is left out, there is no chromium"]


@pytest.fixture(scope="session")
def report(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> PublishedReports:
    return publish(tmp_path_factory.mktemp("report"), spark)
