"""Bearer tokens of programs, looked up at most once a second. The operations ``token.*`` make and revoke them."""

import math
from collections import OrderedDict

from semq.clock import Clock
from semq.service.operations.tokens import PREFIX, token_hash
from semq.store import accounts
from semq.store.accounts import Token
from semq.web.access.visitor import Visitor, rights_of
from semq.web.node.database import Database

KNOWN_S, KNOWN_MAX = 1.0, 10_000
LENGTH_MAX = 100


class Tokens:
    """The tokens of one node."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Token | None]] = OrderedDict()

    def forget(self) -> None:
        """Look up all tokens again, because one was revoked."""
        for hash_, (_, found) in self._known.items():
            self._known[hash_] = -math.inf, found

    def knows(self, text: str) -> bool:
        """Whether a token was valid when it was last looked up."""
        _, found = self._known.get(token_hash(text), (0.0, None))
        return found is not None and found.is_valid(self._clock.wall())

    async def visitor(self, text: str, peer: str) -> Visitor | None:
        """Return the program of a token; None if it is not valid. Raises StoreUnavailable."""
        if not text.startswith(PREFIX) or len(text) > LENGTH_MAX:
            return None
        found = await self._find(token_hash(text))
        if found is None or not found.is_valid(self._clock.wall()):
            return None
        return Visitor(f"{found.name} ({found.id})", "token", peer, rights_of(found.scopes), found.inbox)

    async def _find(self, hash_: bytes) -> Token | None:
        now, known = self._clock.monotonic(), self._known.get(hash_)
        if known is not None and now - known[0] < KNOWN_S:
            return known[1]
        found = await self._database.read(accounts.token, hash_)
        self._known.pop(hash_, None)
        self._known[hash_] = now, found
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)
        return found
