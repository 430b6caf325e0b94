"""A client of each institution."""

from collections.abc import AsyncIterator

import pytest

from semq.app import Client
from tests.app.network import Network
from tests.waiting import PATIENCE_S


@pytest.fixture
async def sender(network: Network) -> AsyncIterator[Client]:
    async with Client(network.sender.url, patience_s=PATIENCE_S) as client:
        yield client


@pytest.fixture
async def receiver(network: Network) -> AsyncIterator[Client]:
    async with Client(network.receiver.url, patience_s=PATIENCE_S) as client:
        yield client
