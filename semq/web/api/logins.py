"""Users of the node over HTTP: each works over a connection of its own, so that the node itself checks what it may do.

A connection is opened with the password of the first request and kept for a while; later requests with the same
password use it. Only a keyed hash of the password is kept.
"""

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass

from semq.app import Client
from semq.app.errors import LoginRefused
from semq.clock import draw_secret
from semq.web.errors import TooManyRequests
from semq.web.node_login import LOGIN_S, NodeOfUsers, is_node_admin, node_url
from semq.web.visitor import EVERYTHING, Scope, Visitor

LOGINS_MAX, IDLE_S = 256, 300.0
APPLICATION = frozenset({Scope.SUBMIT, Scope.RECEIVE, Scope.EVENTS})  # the node checks each by its permissions


@dataclass(slots=True)
class _Login:
    password: bytes
    client: Client
    used_at: float


class Logins:
    """The connections of users, by name."""

    def __init__(self, web: NodeOfUsers) -> None:
        self._web = web
        self._known: OrderedDict[str, _Login] = OrderedDict()
        self._opening = asyncio.Lock()
        self._key = draw_secret(32)

    async def visitor(self, name: str, password: str, peer: str) -> Visitor | None:
        """Return the user of a login; None if the node refuses it. Raises NodeUnreachable, TooManyRequests."""
        if name not in self._web.settings.amqp.users or not password.isprintable():
            return None
        hashed = hashlib.blake2b(password.encode(), key=self._key).digest()
        login = self._known.get(name)
        if login is None or login.password != hashed:
            login = await self._open(name, password, hashed)
        if login is None:
            return None
        login.used_at = self._web.clock.monotonic()
        rights = EVERYTHING if is_node_admin(self._web.settings, name) else APPLICATION
        return Visitor(name, "password", peer, frozenset(rights), None, login.client)

    async def _open(self, name: str, password: str, hashed: bytes) -> _Login | None:
        async with self._opening:
            known = self._known.get(name)
            if known is not None and known.password == hashed:
                return known
            await self._tidy()
            if len(self._known) >= LOGINS_MAX:
                raise TooManyRequests("Too many users of the node are connected.", at_most=LOGINS_MAX)
            client = Client(node_url(self._web, name, password), patience_s=LOGIN_S, clock=self._web.clock)
            try:
                await client.connect()
            except LoginRefused:
                await client.close()
                return None
            except BaseException:
                await client.close()
                raise
            if known is not None:
                await known.client.close()
            made = self._known[name] = _Login(hashed, client, self._web.clock.monotonic())
            return made

    async def _tidy(self) -> None:
        now = self._web.clock.monotonic()
        for name in [name for name, one in self._known.items() if now - one.used_at > IDLE_S]:
            await self._known.pop(name).client.close()

    async def close(self) -> None:
        """Close all connections."""
        for login in self._known.values():
            await login.client.close()
