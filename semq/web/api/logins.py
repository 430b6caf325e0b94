"""Connections of the node's users: each user has a separate connection, so that the node checks the user's permissions.

A connection is opened with the password of the first request; later requests with the same password use it. Passwords
are compared by a keyed hash. The connection keeps its password in memory for reconnecting.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct, field

from semq.access_rights import AccessScope, Right
from semq.app import Client
from semq.app.client import EVENTS, SUBMIT
from semq.app.errors import LoginRefused
from semq.broker.users import Right as NodeRight
from semq.clock import Clock, draw_secret
from semq.service.access import APPLICATIONS, NO_PERMISSIONS, application_users
from semq.web.access.node_login import LOGIN_S, LoginServices, is_node_admin, is_password_of, node_url
from semq.web.access.visitor import ALL_RIGHTS, Visitor
from semq.web.errors import TooManyRequests

LOGINS_MAX, IDLE_S = 256, 300.0  # users with connections; time after which unused connections are closed
VIA = "password"  # ``via`` of these visitors
# Rights of users who do not administer the node; the node checks each request against their permissions. It does not
# check requests for state and trace of sent documents, which need EVENTS: users have it who may submit or read events.
APPLICATION: frozenset[Right] = frozenset({AccessScope.SUBMIT, AccessScope.RECEIVE, AccessScope.EVENTS})


class _Login(Struct):
    password_hash: bytes
    client: Client
    bulk: Client  #: a second connection, which is opened by the first large document
    used_at: float
    requests: set[asyncio.Task[object]] = field(default_factory=set)  #: the tasks that use the connection

    def use(self, clock: Clock) -> None:
        """Note a use from now to the end of this task, which handles one request and its answer."""
        task = asyncio.current_task()
        assert task is not None

        def end(_: object) -> None:
            self.requests.discard(task)
            self.used_at = clock.monotonic()

        if task not in self.requests:
            self.requests.add(task)
            task.add_done_callback(end)

    async def close(self) -> None:
        await self.client.close()
        await self.bulk.close()


class Logins:
    """The connections of users, keyed by the name of the user."""

    def __init__(self, web: LoginServices, is_in_use: Callable[[str], bool]) -> None:
        """``is_in_use(key)``: whether a lease of this ``Visitor.key`` needs the connection between two requests."""
        self._web = web
        self._is_in_use = is_in_use
        self._logins: OrderedDict[str, _Login] = OrderedDict()
        self._opening: dict[str, asyncio.Lock] = {}  #: by user, of the configured ones
        self._key = draw_secret(32)
        users = application_users(web.settings.amqp)
        self._permissions = {user.name: user.permissions.get(APPLICATIONS) for user in users}

    async def visitor(self, name: str, password: str, peer: str) -> Visitor | None:
        """Return the visitor with the connection of this user; None if the user or the password is not valid.

        A wrong password, or an unknown user, is refused without a wait. Raises NodeUnreachable, TooManyRequests.
        """
        if not is_password_of(self._web.settings, name, password):
            return None
        login = self._known(name, password) or await self._open(name, password)
        if login is None:
            return None
        login.use(self._web.clock)
        return Visitor(name, VIA, peer, self._rights(name), None, login.client, login.bulk)

    def _rights(self, name: str) -> frozenset[Right]:
        if is_node_admin(self._web.settings, name):
            return ALL_RIGHTS
        permissions = self._permissions[name] or NO_PERMISSIONS
        sees_sent = permissions.allow(NodeRight.WRITE, SUBMIT) or permissions.allow(NodeRight.READ, EVENTS)
        return APPLICATION if sees_sent else APPLICATION - {AccessScope.EVENTS}

    def _known(self, name: str, password: str) -> _Login | None:
        login = self._logins.get(name)
        return login if login is not None and login.password_hash == self._hash(password) else None

    def _hash(self, password: str) -> bytes:
        return hashlib.blake2b(password.encode("utf-8", "surrogatepass"), key=self._key).digest()

    async def _open(self, name: str, password: str) -> _Login | None:
        async with self._opening.setdefault(name, asyncio.Lock()):
            if (login := self._known(name, password)) is not None:
                return login
            await self._close_idle()
            if len(self._logins) >= LOGINS_MAX:
                raise TooManyRequests("Too many users of the node are connected.", at_most=LOGINS_MAX)
            url = node_url(self._web, name, password)
            client, bulk = [Client(url, patience_s=LOGIN_S, clock=self._web.clock) for _ in range(2)]
            try:
                await client.connect()
            except LoginRefused:
                await client.close()
                return None
            except BaseException:
                await client.close()
                raise
            if (former := self._logins.get(name)) is not None:
                await former.close()
            login = self._logins[name] = _Login(self._hash(password), client, bulk, self._web.clock.monotonic())
            return login

    async def _close_idle(self) -> None:
        now = self._web.clock.monotonic()
        unused = [name for name, login in self._logins.items() if not login.requests and now - login.used_at > IDLE_S]
        idle = [name for name in unused if not self._is_in_use(f"{VIA}:{name}")]
        # Remove all of them before the first is closed: meanwhile a request could begin to use one of the others.
        for login in [self._logins.pop(name) for name in idle]:
            await login.close()

    async def close(self) -> None:
        for login in self._logins.values():
            await login.close()
