"""Several addresses of one hub: the node uses one that answers, and another one after a loss."""

import socket
from collections.abc import AsyncIterator

import pytest_asyncio

from local_node.link.hub_addresses import CONNECT_S, DialAddresses, hub_dial_configs
from local_node.node import LocalNode
from semq.config.sections import HubSection
from semq.transport.dialer import DialConfig
from semq.umx_t.address import Address
from tests.crash.proxy import Proxy
from tests.service.inprocess import LOCAL, InProcess, linked
from tests.waiting import until


@pytest_asyncio.fixture
async def ways(inprocess: InProcess) -> AsyncIterator[tuple[Proxy, Proxy]]:
    """Two proxies to one hub, with connections of their own."""
    hub = await inprocess.hub()
    first, second = Proxy("first"), Proxy("second")
    for way in (first, second):
        way.target = ("127.0.0.1", hub.port)
        await way.start()
    yield first, second
    for way in (first, second):
        await way.stop()


def local(inprocess: InProcess, first: int, *more: int) -> str:
    """Return the text of a configuration with several addresses."""
    urls = ", ".join(f'"amqp://127.0.0.1:{port}"' for port in more)
    text = LOCAL.format(name="10008", hub=first)
    return text.replace("reconnect_s_min = 0.1", f"more_urls = [{urls}]\nreconnect_s_min = 0.1")


async def started(inprocess: InProcess, first: int, *more: int) -> LocalNode:
    return await inprocess.started(inprocess.settings("10008", local(inprocess, first, *more)))


async def test_the_address_that_answers_is_found(inprocess: InProcess, ways: tuple[Proxy, Proxy]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    node = await started(inprocess, port, ways[0].port)
    await linked(node)
    assert ways[0].connections == 1


async def test_after_a_loss_the_other_address_is_dialled(inprocess: InProcess, ways: tuple[Proxy, Proxy]) -> None:
    node = await started(inprocess, ways[0].port, ways[1].port)
    await linked(node)
    assert (ways[0].connections, ways[1].connections) == (1, 0)
    ways[0].change(refuses=True)
    ways[0].cut()
    await until(lambda: ways[1].connections == 1 and node.uplink.link is not None)
    ways[1].change(refuses=True)
    ways[0].clear()
    ways[1].cut()
    await until(lambda: ways[0].connections >= 2 and node.uplink.link is not None)
    assert node.uplink.dial_config_for("umx").port == ways[0].port


async def test_a_hub_with_one_address_is_dialled_there_again(inprocess: InProcess, ways: tuple[Proxy, Proxy]) -> None:
    node = await started(inprocess, ways[0].port)
    await linked(node)
    ways[0].cut()
    await until(lambda: ways[0].connections == 2 and node.uplink.link is not None)


def test_the_addresses_of_a_hub_are_used_in_turn() -> None:
    addresses = DialAddresses([DialConfig("a"), DialConfig("b")])
    seen = []
    for _ in range(3):
        seen.append(addresses.current.host)
        addresses.turn()
    assert seen == ["a", "b", "a"]


def test_among_several_a_silent_address_costs_little_time() -> None:
    one = HubSection(url="amqp://a:1", allow_plain=True)
    two = HubSection(url="amqp://a:1", more_urls=["amqp://b:2"], allow_plain=True)
    [alone] = hub_dial_configs(one, Address(1, "10008"), None, "umx")
    assert alone.connect_s > CONNECT_S
    ways = hub_dial_configs(two, Address(1, "10008"), None, "umx")
    assert [(way.host, way.port, way.connect_s) for way in ways] == [("a", 1, CONNECT_S), ("b", 2, CONNECT_S)]
