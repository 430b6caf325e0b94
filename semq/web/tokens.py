"""Bearer tokens of programs: made once, stored as hashes, looked up at most once a second.

A token is ``semq_ID_SECRET``: the id names it in lists and in the audit log, and only the hash of the whole is stored.
"""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta

from semq.clock import Clock
from semq.store import accounts
from semq.store.accounts import Token
from semq.web.database import Database
from semq.web.errors import BadRequest
from semq.web.secret import hash_of, new_secret
from semq.web.visitor import RIGHTS, Visitor, rights_of

KNOWN_S, KNOWN_MAX = 1.0, 10_000
PREFIX = "semq_"
ID_LENGTH, NAME_MAX, DAYS_MAX = 10, 100, 3650
LIST_MAX = 1000


class Tokens:
    """The tokens of one node."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Token | None]] = OrderedDict()

    async def create(
        self, name: str, scopes: Sequence[str], by: str, *, days: float | None = None, inbox: str | None = None
    ) -> tuple[Token, str]:
        """Store a new token; return it and the text that is never shown again. Raises BadRequest, StoreUnavailable."""
        unknown = sorted(set(scopes) - RIGHTS.keys())
        if unknown or not scopes:
            raise BadRequest("A token has at least one of these scopes.", scopes=" ".join(RIGHTS))
        if not 0 < len(name) <= NAME_MAX or not name.isprintable():
            raise BadRequest(f"The name of a token has 1 to {NAME_MAX} printable characters.")
        if days is not None and not 0 < days <= DAYS_MAX:
            raise BadRequest(f"A token lasts for at most {DAYS_MAX} days.")
        id_ = self._clock.uuid().hex[:ID_LENGTH]
        text, now = f"{PREFIX}{id_}_{new_secret()}", self._clock.wall()
        ends = None if days is None else now + timedelta(days=days)
        made = Token(id_, hash_of(text), name, tuple(dict.fromkeys(scopes)), now, by, inbox, ends)
        await self._database.write(accounts.add_token, made)
        return made, text

    async def list(self) -> list[Token]:
        """Return tokens, the newest first. Raises StoreUnavailable."""
        return await self._database.read(accounts.tokens, LIST_MAX)

    async def revoke(self, id_: str, by: str) -> Token:
        """Revoke a token for good. Raises BadRequest, StoreUnavailable."""
        found = await self._database.write(accounts.revoke_token, id_, by, self._clock.wall())
        self._known.clear()
        if found is None:
            raise BadRequest("There is no such token.", id=id_[:ID_LENGTH])
        return found

    async def visitor(self, text: str, peer: str) -> Visitor | None:
        """Return the program that a token stands for; None if it is not valid. Raises StoreUnavailable."""
        if not text.startswith(PREFIX) or len(text) > 100:
            return None
        found = await self._find(hash_of(text))
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
