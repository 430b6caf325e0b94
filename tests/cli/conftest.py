"""The command line as a process, and a network of nodes for it."""

from collections.abc import Iterator

import pytest

from tests.app.network import Network, running


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with running(tmp_path_factory.mktemp("nodes")) as network:
        yield network
