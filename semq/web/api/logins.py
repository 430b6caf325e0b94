"""Users of the node over HTTP: each has a connection of its own, so that the node itself checks the permissions.

A connection is opened with the password of the first request and kept for a while; later requests with the same
password use it. Only a keyed hash of the password is kept.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from semq.access_rights import AccessScope
from semq.app import Client
from semq.app.errors import LoginRefused
from semq.clock import draw_secret
from semq.web.access.node_login import LOGIN_S, NodeOfUsers, is_node_admin, node_url
from semq.web.access.visitor import EVERYTHING, Visitor
from semq.web.errors import TooManyRequests

LOGINS_MAX, IDLE_S = 256, 300.0
VIA = "password"
APPLICATION = frozenset(
    {AccessScope.SUBMIT, AccessScope.RECEIVE, AccessScope.EVENTS}
)  # the node checks each by its permissions


@dataclass(slots=True)
class _Login:
    password: bytes
    client: Client
    used_at: float


class Logins:
    """The connections of users, by name."""

    def __init__(self, web: NodeOfUsers, is_in_use: Callable[[str], bool]) -> None:
        """``is_in_use`` returns whether a visitor has open leases or event streams, which need the connection."""
        self._web = web
        self._is_in_use = is_in_use
        self._known: OrderedDict[str, _Login] = OrderedDict()
        self._opening = asyncio.Lock()
        self._key = draw_secret(32)

    async def visitor(self, name: str, password: str, peer: str) -> Visitor | None:
        """Return the user of a login; None if the node refuses it. Raises NodeUnreachable, TooManyRequests."""
        if name not in self._web.settings.amqp.users or not password.isprintable():
            return None
        login = self._kept(name, password) or await self._open(name, password, peer)
        if login is None:
            return None
        login.used_at = self._web.clock.monotonic()
        rights = EVERYTHING if is_node_admin(self._web.settings, name) else APPLICATION
        return Visitor(name, VIA, peer, frozenset(rights), None, login.client)

    def knows(self, name: str, password: str) -> bool:
        """Whether the node has accepted this login, and its connection is kept."""
        return self._kept(name, password) is not None

    def _kept(self, name: str, password: str) -> _Login | None:
        known = self._known.get(name)
        return known if known is not None and known.password == self._hash(password) else None

    def _hash(self, password: str) -> bytes:
        return hashlib.blake2b(password.encode("utf-8", "surrogatepass"), key=self._key).digest()

    async def _open(self, name: str, password: str, peer: str) -> _Login | None:
        async with self._opening:
            if (kept := self._kept(name, password)) is not None:
                return kept
            self._web.attempts.check(peer)  # again: others of this address failed while this one waited
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
            if (before := self._known.get(name)) is not None:
                await before.client.close()
            made = self._known[name] = _Login(self._hash(password), client, self._web.clock.monotonic())
            return made

    async def _tidy(self) -> None:
        now = self._web.clock.monotonic()
        idle = [name for name, one in self._known.items() if now - one.used_at > IDLE_S]
        for name in [name for name in idle if not self._is_in_use(f"{VIA}:{name}")]:
            await self._known.pop(name).client.close()

    async def close(self) -> None:
        """Close all connections."""
        for login in self._known.values():
            await login.client.close()
