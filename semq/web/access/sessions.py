"""Sessions of signed-in users: a secret is in a cookie; its hash and the present roles are in the database.

A session is read from the database at most once a second, so a change of roles takes effect within that time. Sessions
of users of the node are valid while they may administer the node. The name of the cookie contains the address of the
node, because browsers share cookies between the ports of one host.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from semq.access_rights import rights_of
from semq.clock import Clock
from semq.config.web import HttpSection
from semq.store import accounts
from semq.store.accounts import AccountSession
from semq.umx_t.address import Address
from semq.web.access.secret import hash_of, new_secret
from semq.web.access.visitor import Visitor
from semq.web.node.database import Database

CACHE_S, CACHE_MAX = 1.0, 1000  # seconds until a session is read again; sessions in memory
# Interval between two updates of ``seen_at``; a tenth of http.idle_s if that is shorter
SEEN_S = 60.0
FORM_S = 3600  # seconds of validity of the cookie for forms before the sign-in
LINK_USER = "first sign-in"  # user of a session that the one-time link began


class Sessions:
    """The sessions of one node."""

    def __init__(
        self,
        http: HttpSection,
        address: Address,
        node_admins: Collection[str],
        database: Database,
        clock: Clock,
        *,
        is_tls: bool,
    ) -> None:
        self._http = http
        self._node_admins = node_admins
        self._database = database
        self._clock = clock
        self._is_tls = is_tls
        #: hash of the secret | monotonic time of reading, session
        self._cache: OrderedDict[bytes, tuple[float, AccountSession]] = OrderedDict()
        prefix = "__Host-" if is_tls else ""
        self.cookie = f"{prefix}semq_{address.type}_{address.id}"
        self.form_cookie = f"{prefix}semq_form_{address.type}_{address.id}"

    async def open(self, account: str, roles: Sequence[str] | None, peer: str) -> str:
        """Begin a session and return its secret. ``roles`` None: the roles of the account.

        Raises the errors of ``Database.write``.
        """
        secret, now = new_secret(), self._clock.wall()
        ends_at = now + timedelta(seconds=self._http.session_s)
        session = AccountSession(hash_of(secret), account, tuple(roles or ()), now, now, ends_at, peer)
        await self._database.write(accounts.add_session, session, roles)
        return secret

    async def visitor(self, secret: str, peer: str) -> Visitor | None:
        """Return the visitor of a session; None if the session is unknown or has ended.

        Raises the errors of ``Database.read``.
        """
        session = await self._find(hash_of(secret))
        if session is None:
            return None
        return Visitor(
            session.account, "link" if session.account == LINK_USER else "session", peer, rights_of(session.roles)
        )

    async def _find(self, hash_: bytes) -> AccountSession | None:
        now, moment = self._clock.wall(), self._clock.monotonic()
        if hash_ in self._cache:
            read_at, session = self._cache[hash_]
            if moment - read_at < CACHE_S and now < session.ends_at:
                return session
        idle_since = now - timedelta(seconds=self._http.idle_s)
        stored = await self._database.read(accounts.session, hash_, now, idle_since, self._node_admins)
        self._cache.pop(hash_, None)
        if stored is not None:
            self._cache[hash_] = moment, stored
            if len(self._cache) > CACHE_MAX:
                self._cache.popitem(last=False)
            if (now - stored.seen_at).total_seconds() > min(SEEN_S, self._http.idle_s / 10):
                await self._database.write(accounts.note_session_use, hash_, now)
        return stored

    async def end(self, secret: str) -> None:
        """End a session. Raises the errors of ``Database.write``."""
        self._cache.pop(hash_of(secret), None)
        await self._database.write(accounts.end_session, hash_of(secret))

    async def end_former(self) -> None:
        """End the sessions of users who no longer administer the node. Raises the errors of ``Database.write``."""
        await self._database.write(accounts.end_former_sessions, self._node_admins)

    def forget(self) -> None:
        """Read each session again at its next use."""
        self._cache.clear()

    def secret_of(self, request: Request) -> str:
        """Return the secret in the cookie of a request; empty without a cookie."""
        return request.cookies.get(self.cookie, "")

    def set_cookie(self, response: Response, secret: str) -> None:
        """Store a session in the browser's cookie; an empty secret removes it."""
        self._set(response, self.cookie, secret, int(self._http.session_s))

    def form_secret_of(self, request: Request) -> str:
        """Return the secret of forms before the sign-in; empty without a cookie."""
        return request.cookies.get(self.form_cookie, "")

    def set_form_cookie(self, response: Response, secret: str) -> None:
        """Store the secret of forms before the sign-in in a cookie; an empty secret removes it."""
        self._set(response, self.form_cookie, secret, FORM_S)

    def _set(self, response: Response, name: str, secret: str, seconds: int) -> None:
        if secret:
            response.set_cookie(
                name, secret, max_age=seconds, path="/", secure=self._is_tls, httponly=True, samesite="strict"
            )
        else:
            response.delete_cookie(name, path="/", secure=self._is_tls, httponly=True, samesite="strict")
