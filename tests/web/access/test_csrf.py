"""Forms from other sites: refused without effect."""

from urllib.parse import quote

import pytest

from platform_node.node import HubNode
from semq.web.access.csrf import token_of
from tests.web.running import PASSWORD, serving

USER = {"name": "eve", "password": PASSWORD, "roles": ["admin"]}


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
    ],
)
async def test_a_request_from_another_site_is_refused(hub: HubNode, headers: dict[str, str]) -> None:
    async with serving(hub) as site:
        browser = await site.signed_in("admin")
        answer = await browser.post("/users/add", data={"csrf": browser.csrf, **USER}, headers=headers)
        assert answer.status_code == 403
        assert "SEMQ-1402" in answer.text
        assert await site.users() == {}


@pytest.mark.parametrize("token", ["", "0" * 64, "of another session", "é"])
async def test_a_form_without_the_token_of_the_session_is_refused(hub: HubNode, token: str) -> None:
    async with serving(hub) as site:
        browser = await site.signed_in("admin")
        other_browser = await site.signed_in("admin")
        sent = other_browser.csrf if token == "of another session" else token
        assert (await browser.post("/users/add", data={"csrf": sent, **USER})).status_code == 403
        assert (
            await browser.post("/users/add", headers={"x-csrf-token": quote(sent) or "x"}, data=USER)
        ).status_code == 403
        assert await site.users() == {}


async def test_the_token_may_come_in_a_header(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser = await site.signed_in("admin")
        headers = {"x-csrf-token": browser.csrf, "origin": site.url, "sec-fetch-site": "same-origin"}
        assert (await browser.post("/users/add", data=USER, headers=headers)).status_code == 303
        assert await site.users() == {"eve": ("admin",)}


async def test_a_sign_in_that_another_site_prepared_is_refused(hub: HubNode) -> None:
    async with serving(hub) as site:
        browser = await site.browser()
        form = {"csrf": token_of("another secret"), "name": "eve", "password": PASSWORD}
        assert (await browser.post("/sign-in", data=form)).status_code == 403
        await browser.get("/sign-in")
        assert (await browser.post("/sign-in", data=form)).status_code == 403
