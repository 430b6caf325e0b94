"""Sessions of signed-in users: a random cookie, its hash in the database, and the present roles of the account.

A session is looked up at most once a second, so that a change of roles takes effect within that time. The cookie
carries the name of the node, because browsers share cookies between the ports of one host.
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import Response

from semq.clock import Clock
from semq.config.web import HttpSection
from semq.store import accounts
from semq.store.accounts import AccountSession
from semq.umx_t.address import Address
from semq.web.access.secret import hash_of, new_secret
from semq.web.access.visitor import Visitor, rights_of
from semq.web.node.database import Database

KNOWN_S, KNOWN_MAX = 1.0, 1000
SEEN_S = 60.0  # shortest interval between two notes of a session's use
FIRST = "first sign-in"  # the name of the person who used the one-time link


class Sessions:
    """The sessions of one node."""

    def __init__(self, http: HttpSection, address: Address, database: Database, clock: Clock, *, is_tls: bool) -> None:
        self._http = http
        self._database = database
        self._clock = clock
        self._is_tls = is_tls
        self._known: OrderedDict[bytes, tuple[float, AccountSession]] = OrderedDict()
        prefix = "__Host-" if is_tls else ""
        self.cookie = f"{prefix}semq_{address.type}_{address.id}"
        self.form_cookie = f"{prefix}semq_form_{address.type}_{address.id}"

    async def open(self, account: str, roles: Sequence[str] | None, peer: str) -> str:
        """Begin a session and return its secret. ``roles`` None: those of the account. Raises StoreUnavailable."""
        secret, now = new_secret(), self._clock.wall()
        ends_at = now + timedelta(seconds=self._http.session_s)
        new = AccountSession(hash_of(secret), account, tuple(roles or ()), now, now, ends_at, peer)
        await self._database.write(accounts.add_session, new, roles)
        return secret

    async def visitor(self, secret: str, peer: str) -> Visitor | None:
        """Return the visitor of this session; None if there is none, or it has ended. Raises StoreUnavailable."""
        found = await self._find(hash_of(secret))
        if found is None:
            return None
        return Visitor(found.account, "link" if found.account == FIRST else "session", peer, rights_of(found.roles))

    async def _find(self, hash_: bytes) -> AccountSession | None:
        now, moment = self._clock.wall(), self._clock.monotonic()
        known = self._known.get(hash_)
        if known is not None and moment - known[0] < KNOWN_S and now < known[1].ends_at:
            return known[1]
        idle_since = now - timedelta(seconds=self._http.idle_s)
        found = await self._database.read(accounts.session, hash_, now, idle_since)
        self._known.pop(hash_, None)
        if found is not None:
            self._known[hash_] = moment, found
            if len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)
            if (now - found.seen_at).total_seconds() > min(SEEN_S, self._http.idle_s / 10):
                await self._database.write(accounts.see_session, hash_, now)
        return found

    async def end(self, secret: str) -> None:
        """End a session. Raises StoreUnavailable."""
        self._known.pop(hash_of(secret), None)
        await self._database.write(accounts.end_session, hash_of(secret))

    def forget(self) -> None:
        """Look up all sessions again, because accounts have changed."""
        self._known.clear()

    def secret_of(self, request: Request) -> str:
        """Return the secret that a request carries; empty without one."""
        return request.cookies.get(self.cookie, "")

    def hand_over(self, response: Response, secret: str) -> None:
        """Store a session in the browser's cookie; an empty secret removes it."""
        self._set(response, self.cookie, secret, int(self._http.session_s))

    def form_secret_of(self, request: Request) -> str:
        """Return the secret of forms before the sign-in."""
        return request.cookies.get(self.form_cookie, "")

    def hand_over_form(self, response: Response, secret: str) -> None:
        """Store the secret of forms before the sign-in in a cookie."""
        self._set(response, self.form_cookie, secret, 3600)

    def _set(self, response: Response, name: str, secret: str, seconds: int) -> None:
        if secret:
            response.set_cookie(
                name, secret, max_age=seconds, path="/", secure=self._is_tls, httponly=True, samesite="strict"
            )
        else:
            response.delete_cookie(name, path="/", secure=self._is_tls, httponly=True, samesite="strict")
