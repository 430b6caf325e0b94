"""Requests for foreign host names: refused by console and API, unless the name is in the configuration."""

import socket

import pytest

from platform_node.node import HubNode
from semq.config.web import HttpSection
from semq.web.transport.hosts import is_address, name_of, names_of
from tests.web.running import serving

FOREIGN = ("rebound.example", "rebound.example:7480", "127.0.0.1.example", "localhost.example", "semq.example.", "*")
OWN = ("localhost", "LOCALHOST:1", "localhost.:7480", "127.0.0.1:80", "127.0.0.1", "[::1]:80", "192.0.2.7", "")


@pytest.mark.parametrize("path", ["/", "/sign-in", "/livez", "/metrics", "/api/v1/openapi.json", "/api/v1/nothing"])
async def test_a_foreign_name_is_refused_everywhere(hub: HubNode, path: str) -> None:
    async with serving(hub) as site:
        browser = await site.browser()
        for host in FOREIGN:
            answer = await browser.get(path, headers={"host": host, "accept": "text/html"})
            assert (answer.status_code, answer.json()["code"]) == (421, "SEMQ-1408"), host
            assert answer.headers["x-frame-options"] == "DENY"
        for host in (*OWN[:-1], socket.gethostname()):
            answer = await browser.get(path, headers={"host": host})
            assert answer.status_code != 421, host


async def test_names_may_be_configured(hub: HubNode) -> None:
    for http in ({"hosts": ["semq.example"]}, {"url": "https://Semq.example/"}, {"hosts": ["*"]}):
        async with serving(hub, **http) as site:
            browser, path = await site.browser(), f"http://127.0.0.1:{site.server.port}/livez"
            for host in ("semq.example", "semq.example:443", "SEMQ.example."):
                assert (await browser.get(path, headers={"host": host})).status_code == 200
            answer = await browser.get(path, headers={"host": "other.example"})
            assert answer.status_code == (200 if http == {"hosts": ["*"]} else 421)


def test_a_host_is_a_name_or_an_address() -> None:
    names = names_of(HttpSection())
    for host in OWN:
        assert not host or is_address(host.encode()) or name_of(host.encode()) in names, host
    for host in FOREIGN:
        assert not is_address(host.encode()), host
        assert name_of(host.encode()) not in names, host
