"""Probes and figures over HTTP: the rights that they need, and the answers about a failing node."""

import asyncio

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as read_text

from local_node.node import LocalNode
from platform_node.node import HubNode
from tests.service.inprocess import InProcess
from tests.service.monitoring.test_metrics import read_openmetrics
from tests.waiting import until
from tests.web.running import Site, serving


async def get(site: Site, path: str, scope: str = "", **headers: str) -> httpx.Response:
    """Return the answer to a request of a monitoring system. ``scope``: that of its token; empty: no token."""
    if scope:
        text = await site.token(scope)
        headers["authorization"] = f"Bearer {text}"
    async with httpx.AsyncClient(base_url=site.url, timeout=60, verify=False) as client:
        return await client.get(path, headers=headers)


async def test_probes_need_no_login_and_their_details_do(node: LocalNode) -> None:
    async with serving(node) as site:
        for path, text in (("/livez", "ok\n"), ("/readyz", "ok\n"), ("/healthz", "ok\n")):
            answer = await get(site, path)
            assert (answer.status_code, answer.text) == (200, text)
        assert (await get(site, "/healthz?verbose")).status_code == 401
        assert (await get(site, "/healthz?verbose", "submit")).status_code == 403
        content = (await get(site, "/healthz?verbose", "viewer")).json()
        assert {"check": "link", "verdict": "ok", "detail": ""} in content["checks"]
        assert await site.audit() == []


@pytest.mark.parametrize("path", ["/metrics", "/metrics/detailed"])
async def test_figures_are_for_viewers_in_both_formats(hub: HubNode, path: str) -> None:
    async with serving(hub) as site:
        assert (await get(site, path)).status_code == 401
        assert (await get(site, path, "receive")).status_code == 403
        text = await get(site, path, "viewer")
        assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert "semq_check" in {family.name for family in read_text(text.text)}
        accept = "application/openmetrics-text;version=1.0.0;q=0.9,text/plain;q=0.1"
        openmetrics = await get(site, path, "viewer", accept=accept)
        assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
        assert "semq_node" in {family.name for family in read_openmetrics(openmetrics.text)}


async def test_a_failing_node_fails_the_health_check_but_not_the_process(inprocess: InProcess) -> None:
    hub, node = await inprocess.linked_pair()
    async with serving(node) as site:
        await hub.stop()

        async def fails() -> bool:
            return (await get(site, "/healthz")).status_code == 503

        await until(fails)
        assert (await get(site, "/livez")).status_code == 200
        assert (await get(site, "/readyz")).status_code == 200  # the node accepts documents without its hub
        node.store.counters.went_back = 1  # as after a failover that lost commits

        async def store_warns() -> bool:
            content = (await get(site, "/healthz?verbose", "viewer")).json()
            return {"store": "warning"}.items() <= {row["check"]: row["verdict"] for row in content["checks"]}.items()

        await until(store_warns)
        assert (await get(site, "/readyz")).status_code == 200
        node.engine.acceptance.stop()

        async def is_drained() -> bool:
            return (await get(site, "/readyz")).status_code == 503

        await until(is_drained)
        await node.stop()

        async def is_away() -> bool:
            content = (await get(site, "/healthz?verbose", "viewer")).json()
            return [(row["check"], row["detail"]) for row in content["checks"]] == [("node", "it does not answer")]

        await until(is_away)
        assert (await get(site, "/readyz")).status_code == 503
        assert (await get(site, "/livez")).status_code == 200
        assert (await get(site, "/healthz")).text == "failing\n"


async def test_simultaneous_requests_share_answers_of_the_node(hub: HubNode) -> None:
    async with serving(hub) as site:
        text = await site.token("viewer")
        async with httpx.AsyncClient(
            base_url=site.url, headers={"authorization": f"Bearer {text}"}, verify=False
        ) as client:
            answers = await asyncio.gather(*(client.get("/metrics") for _ in range(20)))
        assert 1 <= len({answer.text for answer in answers if answer.status_code == 200}) <= 2
