"""Fixture of demos that other tests cover in part."""

import pytest


@pytest.fixture
def reconciles(pytestconfig: pytest.Config) -> bool:
    """Whether this demo ends with its reconciliation: with ``--deep``. Two others always do, one with certificates and
    one without a hub, and tests/spark_reconcile judges messages of direct links and of several stores.
    """
    return bool(pytestconfig.getoption("deep"))
