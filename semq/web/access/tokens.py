"""Bearer tokens of programs. A token in memory is read from the database again after a second.

The operations ``token.*`` of the node (``semq.service.operations.tokens``) make and revoke tokens.
"""

import math
from collections import OrderedDict

from semq.access_rights import rights_of
from semq.clock import Clock
from semq.service.operations.tokens import PREFIX, token_hash
from semq.store import accounts
from semq.store.accounts import Token
from semq.web.access.visitor import Visitor
from semq.web.node.database import Database

CACHE_S, CACHE_MAX = 1.0, 10_000  # seconds until a token is read again; tokens in memory
LENGTH_MAX = 100  # characters of a token


class Tokens:
    """The tokens of one node."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        #: hash of the text | monotonic time of reading, token; None: there is no such token
        self._cache: OrderedDict[bytes, tuple[float, Token | None]] = OrderedDict()

    def read_again(self) -> None:
        """Read each token again at its next use; the answers of ``knows`` do not change."""
        for hash_, (_, token) in self._cache.items():
            self._cache[hash_] = -math.inf, token

    def knows(self, text: str) -> bool:
        """Whether a token was valid when it was last read, and has not expired since."""
        _, token = self._cache.get(token_hash(text), (0.0, None))
        return token is not None and token.is_valid(self._clock.wall())

    async def visitor(self, text: str, peer: str) -> Visitor | None:
        """Return the program with this token; None if it is not valid. Raises the errors of ``Database.read``."""
        if not text.startswith(PREFIX) or len(text) > LENGTH_MAX:
            return None
        token = await self._find(token_hash(text))
        if token is None or not token.is_valid(self._clock.wall()):
            return None
        return Visitor(f"{token.name} ({token.id})", "token", peer, rights_of(token.scopes), token.inbox)

    async def _find(self, hash_: bytes) -> Token | None:
        now = self._clock.monotonic()
        if hash_ in self._cache:
            read_at, token = self._cache[hash_]
            if now - read_at < CACHE_S:
                return token
        token = await self._database.read(accounts.token, hash_)
        self._cache.pop(hash_, None)
        self._cache[hash_] = now, token
        if len(self._cache) > CACHE_MAX:
            self._cache.popitem(last=False)
        return token
