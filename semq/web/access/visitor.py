"""The sender of a request and its rights: a person in a session, or a program with a token, certificate or password.

Roles are the rights to pages and operations of the node; scopes are rights of programs to other endpoints of the API.
"""

from collections.abc import Iterable

from msgspec import Struct
from starlette.requests import Request

from semq.access_rights import RIGHTS, AccessRole, AccessScope, Right
from semq.app import Client
from semq.web.errors import RoleMissing

# Rights to read payloads; only a visitor with the role ``payload`` may grant them
PAYLOAD_RIGHTS = frozenset({AccessRole.PAYLOAD, AccessScope.RECEIVE})
ALL_RIGHTS = frozenset(RIGHTS.values())


def peer_of(request: Request) -> str:
    """Return the address of the client; empty for a Unix socket."""
    return request.client.host if request.client else ""


class Visitor(Struct, frozen=True):
    """The sender of a request."""

    name: str
    via: str  #: session, link, token, password, certificate
    peer: str  #: address of the client
    rights: frozenset[Right]
    inbox: str | None = None  #: the only user whose inbox the visitor may open; None: any
    #: for a user of the node: this user's connection, so that the node checks the user's permissions; otherwise None
    login: Client | None = None
    #: likewise, for large documents: an incomplete body closes the connection, which ends the leases of ``login``
    bulk: Client | None = None

    @property
    def key(self) -> str:
        """The name by which requests, streams and leases are counted."""
        return f"{self.via}:{self.name}"

    @property
    def roles(self) -> frozenset[AccessRole]:
        return frozenset(right for right in self.rights if isinstance(right, AccessRole))

    def check_grant(self, names: Iterable[str]) -> None:
        """Refuse to grant a right to payloads if the visitor does not have it. Raises RoleMissing."""
        if not self.may(AccessRole.PAYLOAD) and PAYLOAD_RIGHTS.intersection(names):
            raise RoleMissing("A user without the right to payloads cannot grant it.", role=AccessRole.PAYLOAD.value)

    def lacks(self, *rights: str, **facts: str) -> RoleMissing:
        """Return the error for a visitor who has none of these roles or scopes, with those that the visitor has."""
        needs, has = " or ".join(rights), ", ".join(sorted(self.rights)) or "none"
        return RoleMissing(**facts, needs=needs, has=has)

    def may(self, right: str) -> bool:
        """Whether the visitor has a role or scope."""
        return RIGHTS[right] in self.rights
