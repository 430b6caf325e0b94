"""Fixtures of this folder: a shared server, and a channel of pika on it."""

from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker.served import Served, served


@pytest.fixture(scope="session")
def broker() -> Iterator[Served]:
    """Return one server for all tests that leave it unchanged; queues are exclusive or deleted."""
    with served() as running:
        yield running


@pytest.fixture
def channel(broker: Served) -> BlockingChannel:
    """Return a channel of the shared server."""
    return broker.connect().channel()


@pytest.fixture(autouse=True)
def hung_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """Close the connections of a test to the shared server."""
    yield
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker").hang_up()
