"""Whether demos end with a reconciliation, which other tests cover."""

import pytest


@pytest.fixture
def reconciles(pytestconfig: pytest.Config) -> bool:
    """Whether a demo ends with the reconciliation: only with ``--deep``.

    Without ``--deep``, test_scenario has one demo with a reconciliation, and tests/spark_reconcile has messages of
    direct links and of several stores.
    """
    return bool(pytestconfig.getoption("deep"))
