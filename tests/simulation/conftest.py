"""A fixture: one process for all runs of the simulator on a worker."""

from collections.abc import Iterator

import pytest

from tests.simulation.runs import Runs


@pytest.fixture(scope="session")
def runs() -> Iterator[Runs]:
    with Runs() as started:
        yield started
