"""The web process of a node in the test's own event loop.

async with serving(node) as site:
    async with await site.signed_in("operator") as browser:
        await browser.get("/")
        await browser.post_form("/failed/requeue", id="1.10008.1")
"""

import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any

import httpx

from local_node.node import LocalNode
from platform_node.node import HubNode
from semq.clock import Clock, SystemClock
from semq.config.reach import url_of
from semq.config.web import HttpSection
from semq.service.operations.tokens import new_token
from semq.store.accounts import Token, accounts, add_token
from semq.store.audit import AuditFilter, lines
from semq.web.application import build
from semq.web.process import announcement
from semq.web.services import Web
from semq.web.transport.server import Server

PASSWORD = "correct horse battery"
# Options of a client that reads neither certificates nor proxies, which saves time
DIRECT: dict[str, Any] = {"verify": False, "trust_env": False}
_numbers = count(1)


class Browser(httpx.AsyncClient):
    """A client that keeps cookies and sends forms with the token of the page."""

    csrf = ""

    async def post_form(self, path: str, **fields: Any) -> httpx.Response:
        """Post a form with the token of the page that ``look`` opened last."""
        return await self.post(path, data={"csrf": self.csrf, **fields})

    async def look(self, path: str = "/account") -> httpx.Response:
        """Open a page and store its token for ``post_form``."""
        response = await self.get(path)
        match = re.search(r'name="csrf" (?:content|value)="([0-9a-f]+)"', response.text)
        self.csrf = match[1] if match else ""
        return response


class Site:
    """A running web process."""

    def __init__(self, web: Web, server: Server, link: str, stack: AsyncExitStack) -> None:
        self.web = web
        self.server = server
        self.url = server.url
        self.link = link  #: the one-time link; the address of the console if somebody can sign in
        self.inbox = f"inbox-{next(_numbers)}"  #: a user whose inbox no other test uses
        self.tokens: list[Token] = []  #: made by ``token``, the newest last
        self._stack = stack
        self._users = 0

    async def browser(self) -> Browser:
        return await self._stack.enter_async_context(Browser(base_url=self.url, timeout=60, **DIRECT))

    async def signed_in(self, *roles: str) -> Browser:
        """Return a browser of a new user with these roles; by default an administrator who may see payloads."""
        self._users += 1
        secret = await self.web.sessions.open(f"user{self._users}", roles or ("admin", "payload"), "127.0.0.1")
        browser = await self.browser()
        browser.cookies.set(self.web.sessions.cookie, secret)
        await browser.look()
        return browser

    async def token(self, *scopes: str, **more: Any) -> str:
        token, text = new_token("erp", scopes, "test", self.web.clock, **more)
        await self.web.database.write(add_token, token)
        self.tokens.append(token)
        return text

    async def program(self, *scopes: str, **more: Any) -> httpx.AsyncClient:
        """Return a client with a new token."""
        text = await self.token(*scopes, **more)
        headers = {"authorization": f"Bearer {text}"}
        return await self._stack.enter_async_context(
            httpx.AsyncClient(base_url=f"{self.url}/api/v1", headers=headers, timeout=60, **DIRECT)
        )

    async def audit(self, act: str | None = None) -> list[tuple[str, str, str]]:
        """Return user, act and outcome of lines of the audit log, oldest first. ``act``: beginning of its name."""
        newest_first = await self.web.database.read(lines, AuditFilter(act=act, limit=1000))
        return [(line["who"], line["act"], line["outcome"]) for line in reversed(newest_first)]

    async def users(self) -> dict[str, tuple[str, ...]]:
        return {account.name: account.roles for account in await self.web.database.read(accounts)}


@asynccontextmanager
async def serving(node: LocalNode | HubNode, clock: Clock | None = None, **http: Any) -> AsyncIterator[Site]:
    """Serve a node that runs in this event loop. ``clock``: of the web process; ``http``: keys of section [http]."""
    settings = node.settings.model_copy(update={"http": HttpSection(**{"port": 0} | http)})
    web = Web(settings, url_of(node.settings, node.port), lambda: node.store.url, clock or SystemClock())
    server = Server(web.http, build(web))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(web.close)
        await server.start()
        stack.push_async_callback(server.stop)
        line = await announcement(web, server.url)
        yield Site(web, server, line.removeprefix("console "), stack)
