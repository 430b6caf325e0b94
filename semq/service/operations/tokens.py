"""Operations ``token.*``: bearer tokens for the HTTP API. Only their hashes are stored.

A token is ``semq_ID_SECRET``; the id names it in lists and in the audit log.
"""

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from semq.access_rights import AccessRole, RightName
from semq.answers import OperationAnswer
from semq.clock import Clock, draw_secret
from semq.moments import utc_text, utc_text_or_none
from semq.service.errors import BadArguments
from semq.service.operations.arguments import Arguments, Limit
from semq.service.operations.operation import Caller, act, look
from semq.service.operations.ports import OperatedNode
from semq.store import accounts
from semq.store.accounts import Token

PREFIX = "semq_"
SECRET_BYTES, ID_LENGTH, NAME_MAX, DAYS_MAX = 32, 10, 100, 3650


class CreateToken(Arguments, frozen=True, kw_only=True):
    """Name and rights of a new token."""

    name: Annotated[str, Meta(min_length=1, max_length=NAME_MAX, description="Purpose of the token.")]
    scopes: Annotated[tuple[RightName, ...], Meta(min_length=1, max_length=7, description="Rights of the token.")]
    days: (
        Annotated[float, Meta(gt=0, le=DAYS_MAX, description="Days until the token ends; default: it never ends.")]
        | None
    ) = None
    inbox: (
        Annotated[
            str,
            Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$", max_length=64, description="Only this user's inbox may be opened."),
        ]
        | None
    ) = None


class RevokeToken(Arguments, frozen=True, kw_only=True):
    """One token."""

    id: Annotated[str, Meta(min_length=1, max_length=64, description="Id of the token, as in the list of tokens.")]


class ListTokens(Arguments, frozen=True, kw_only=True):
    """The number of tokens to list."""

    limit: Limit = 200


class TokenFacts(OperationAnswer, frozen=True, kw_only=True):
    """A token, without its text."""

    id: str
    name: str
    scopes: tuple[str, ...]
    inbox: str | None  #: only this user's inbox may be opened; null: every inbox
    made_by: str
    revoked_by: str | None
    made_at: str
    expires_at: str | None
    revoked_at: str | None
    token: str | UnsetType = UNSET  #: its text, only in the answer to its creation


class TokenOperations:
    """The handlers of ``token.*``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def create(self, arguments: CreateToken, caller: Caller) -> TokenFacts:
        """Make a bearer token for the HTTP API; its text is in this answer only."""
        token, text = new_token(
            arguments.name, arguments.scopes, caller.user, self._node.clock, arguments.days, arguments.inbox
        )
        await self._node.store.execute(accounts.add_token, token)
        return _described(token, text)

    async def list_all(self, arguments: ListTokens) -> list[TokenFacts]:
        """List the tokens of the HTTP API, without their texts."""
        return [_described(token) for token in await self._node.store.execute(accounts.tokens, arguments.limit)]

    async def revoke(self, arguments: RevokeToken, caller: Caller) -> TokenFacts:
        """Revoke a token permanently."""
        now = self._node.clock.wall()
        token = await self._node.store.execute(accounts.revoke_token, arguments.id, caller.user, now)
        if token is None:
            raise BadArguments("There is no token with this id.", id=arguments.id).with_remedy(
                "`semq token list` lists the tokens with their ids."
            )
        return _described(token)


def new_token(
    name: str, scopes: Sequence[str], made_by: str, clock: Clock, days: float | None = None, inbox: str | None = None
) -> tuple[Token, str]:
    """Return a new token and its text. ``days`` None: it never ends. Raises BadArguments."""
    if not name.isprintable():
        raise BadArguments("The name of a token must consist of printable characters.")
    id_ = clock.uuid().hex[:ID_LENGTH]
    secret = urlsafe_b64encode(draw_secret(SECRET_BYTES)).rstrip(b"=").decode()
    text, now = f"{PREFIX}{id_}_{secret}", clock.wall()
    expires_at = None if days is None else now + timedelta(days=days)
    rights = tuple(dict.fromkeys(scopes))
    return Token(id_, token_hash(text), name, rights, now, made_by, inbox, expires_at), text


def token_hash(text: str) -> bytes:
    """Return the stored hash of a token. A fast hash suffices for 256 random bits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _described(token: Token, text: str | UnsetType = UNSET) -> TokenFacts:
    return TokenFacts(
        id=token.id,
        name=token.name,
        scopes=token.scopes,
        inbox=token.inbox,
        made_by=token.made_by,
        revoked_by=token.revoked_by,
        made_at=utc_text(token.made_at),
        expires_at=utc_text_or_none(token.expires_at),
        revoked_at=utc_text_or_none(token.revoked_at),
        token=text,
    )


TOKENS = (
    act("token.create", AccessRole.ADMIN, CreateToken, TokenOperations.create),
    look("token.list", AccessRole.ADMIN, ListTokens, TokenOperations.list_all),
    act("token.revoke", AccessRole.ADMIN, RevokeToken, TokenOperations.revoke),
)
