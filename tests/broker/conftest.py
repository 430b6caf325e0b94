"""Fixtures of this folder: a shared server, and a channel of pika on it."""

from collections.abc import Iterator

import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.broker.served import RunningBroker, run_broker


@pytest.fixture(scope="session")
def broker() -> Iterator[RunningBroker]:
    """Return the server that tests share. The queues of a test are exclusive, or the test deletes them."""
    with run_broker() as running_broker:
        yield running_broker


@pytest.fixture
def channel(broker: RunningBroker) -> BlockingChannel:
    return broker.connect().channel()


@pytest.fixture(autouse=True)
def _disconnect_clients(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "broker" in request.fixturenames:
        request.getfixturevalue("broker").hang_up()
