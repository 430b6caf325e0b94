"""A server that the tests of this folder share, and a channel of pika on it."""

from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker.served import Served, served


@pytest.fixture(scope="session")
def broker() -> Iterator[Served]:
    """One server for all tests that leave it as they found it; queues are exclusive or deleted."""
    with served() as running:
        yield running


@pytest.fixture
def channel(broker: Served) -> BlockingChannel:
    """A channel of the shared server."""
    return broker.connect().channel()


@pytest.fixture(autouse=True)
def hung_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whatever a test has connected to the shared server is closed with it."""
    yield
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker").hang_up()
