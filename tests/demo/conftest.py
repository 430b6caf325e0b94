"""Whether demos end with a reconciliation."""

import pytest


@pytest.fixture
def reconciles(pytestconfig: pytest.Config) -> bool:
    """Whether a demo ends with a reconciliation: with ``--deep``. One demo of test_scenario always does."""
    return bool(pytestconfig.getoption("deep"))
