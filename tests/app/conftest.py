"""One network of nodes for all tests of the library, and a client of each institution."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from semq.app import Client
from tests.app.network import Network, running


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with running(tmp_path_factory.mktemp("nodes")) as network:
        asyncio.run(_until_linked(network))
        yield network


async def _until_linked(network: Network) -> None:
    async with Client(network.sender.url) as client:
        # A node that has no link yet accepts and sends later; only then does the first document come back from there.
        sent = await client.send("56001/nobody", b"the first one")
        await client.wait_for_delivery(sent.lk0)


@pytest.fixture
async def sender(network: Network) -> AsyncIterator[Client]:
    async with Client(network.sender.url, patience_s=30) as client:
        yield client


@pytest.fixture
async def receiver(network: Network) -> AsyncIterator[Client]:
    async with Client(network.receiver.url, patience_s=30) as client:
        yield client
