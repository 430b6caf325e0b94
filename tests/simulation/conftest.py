"""The fixture ``runs``: one process of the simulator for each worker."""

from collections.abc import Iterator

import pytest

from tests.simulation.runs import SimulatorProcess


@pytest.fixture(scope="session")
def runs() -> Iterator[SimulatorProcess]:
    with SimulatorProcess() as started:
        yield started
