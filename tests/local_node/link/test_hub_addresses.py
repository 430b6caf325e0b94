"""Several addresses of one hub: the node uses one that answers, and another one after a loss."""

import socket
from collections.abc import AsyncIterator

import pytest

from local_node.link.hub_addresses import CONNECT_S, DialAddresses, hub_dial_configs
from local_node.node import LocalNode
from semq.config.sections import HubSection
from semq.transport.dialer import DialConfig
from semq.umx_t.address import Address
from tests.crash.proxy import Proxy
from tests.service.inprocess import LOCAL_CONFIG, InProcess, linked, uplink_of
from tests.waiting import until


@pytest.fixture
async def proxies(inprocess: InProcess) -> AsyncIterator[tuple[Proxy, Proxy]]:
    """Return two proxies to one hub."""
    hub = await inprocess.hub()
    first, second = Proxy(), Proxy()
    for proxy in (first, second):
        proxy.target = ("127.0.0.1", hub.port)
        await proxy.start()
    yield first, second
    for proxy in (first, second):
        await proxy.stop()


def configuration(first: int, *further: int) -> str:
    """Return the configuration of a node for these ports of the hub."""
    urls = ", ".join(f'"amqp://127.0.0.1:{port}"' for port in further)
    text = LOCAL_CONFIG.format(name="10008", hub=first)
    return text.replace("reconnect_s_min = 0.1", f"more_urls = [{urls}]\nreconnect_s_min = 0.1")


async def start_node(inprocess: InProcess, first: int, *further: int) -> LocalNode:
    return await inprocess.start_node(inprocess.settings("10008", configuration(first, *further)))


async def test_an_address_that_does_not_answer_is_skipped(inprocess: InProcess, proxies: tuple[Proxy, Proxy]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    node = await start_node(inprocess, port, proxies[0].port)
    await linked(node)
    assert proxies[0].connections == 1


async def test_after_a_loss_the_other_address_is_dialled(inprocess: InProcess, proxies: tuple[Proxy, Proxy]) -> None:
    node = await start_node(inprocess, proxies[0].port, proxies[1].port)
    await linked(node)
    assert (proxies[0].connections, proxies[1].connections) == (1, 0)
    proxies[0].change(is_refusing=True)
    proxies[0].cut()
    await until(lambda: proxies[1].connections == 1 and node.parts.hub.link is not None)
    proxies[1].change(is_refusing=True)
    proxies[0].clear()
    proxies[1].cut()
    await until(lambda: proxies[0].connections >= 2 and node.parts.hub.link is not None)
    assert uplink_of(node).dial_config_for("umx").port == proxies[0].port


async def test_a_hub_with_one_address_is_dialled_again(inprocess: InProcess, proxies: tuple[Proxy, Proxy]) -> None:
    node = await start_node(inprocess, proxies[0].port)
    await linked(node)
    proxies[0].cut()
    await until(lambda: proxies[0].connections == 2 and node.parts.hub.link is not None)


def test_the_addresses_of_a_hub_are_used_in_turn() -> None:
    addresses = DialAddresses([DialConfig("a"), DialConfig("b")])
    dialled = []
    for _ in range(3):
        dialled.append(addresses.current.host)
        addresses.advance()
    assert dialled == ["a", "b", "a"]


def test_one_of_several_addresses_gets_less_time_to_answer() -> None:
    with_one = HubSection(url="amqp://a:1", allow_plain=True)
    with_two = HubSection(url="amqp://a:1", more_urls=["amqp://b:2"], allow_plain=True)
    [single] = hub_dial_configs(with_one, Address(1, "10008"), None, "umx")
    assert single.connect_s > CONNECT_S
    configs = hub_dial_configs(with_two, Address(1, "10008"), None, "umx")
    assert [(config.host, config.port, config.connect_s) for config in configs] == [
        ("a", 1, CONNECT_S),
        ("b", 2, CONNECT_S),
    ]
