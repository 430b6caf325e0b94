"""The sender of a request: a person in a session, or a program with a token, a certificate or a password; and its
rights.

Roles are those of the table of operations; scopes are rights of programs that no operation has.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from semq.access_rights import AccessRole, AccessScope
from semq.app import Client
from semq.web.errors import RoleMissing

Right = AccessRole | AccessScope
RIGHTS: dict[str, Right] = {str(one): one for one in (*AccessRole, *AccessScope)}
# Right | those that it includes
INCLUDED: dict[Right, tuple[Right, ...]] = {
    AccessRole.OPERATOR: (AccessRole.VIEWER,),
    AccessRole.ADMIN: (AccessRole.OPERATOR, AccessRole.VIEWER, AccessScope.EVENTS),
}
# Rights to read payloads; only visitors who have such a right may give it to others
SHOW_PAYLOADS = frozenset({AccessRole.PAYLOAD, AccessScope.RECEIVE})
EVERYTHING = frozenset(RIGHTS.values())


def rights_of(names: Iterable[str]) -> frozenset[Right]:
    """Return rights by name, with those that they include; unknown names give nothing."""
    own = {RIGHTS[name] for name in names if name in RIGHTS}
    return frozenset(own.union(*(INCLUDED.get(one, ()) for one in own)))


@dataclass(frozen=True, slots=True)
class Visitor:
    """The party that makes a request."""

    name: str
    via: str  #: session, link, token, password, certificate
    peer: str  #: address
    rights: frozenset[Right]
    inbox: str | None = None  #: the only user whose inbox the visitor may open; None: any
    #: the connection of a user of the node, whose permissions the node checks
    login: Client | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """The name under which requests are counted."""
        return f"{self.via}:{self.name}"

    @property
    def roles(self) -> frozenset[AccessRole]:
        """The rights that are roles."""
        return frozenset(one for one in self.rights if isinstance(one, AccessRole))

    def check_giving(self, names: Iterable[str]) -> None:
        """Refuse to give others a right to payloads that the visitor does not have. Raises RoleMissing."""
        if not self.may(AccessRole.PAYLOAD) and SHOW_PAYLOADS.intersection(names):
            raise RoleMissing("A user without the right to payloads cannot grant it.", role=AccessRole.PAYLOAD.value)

    def may(self, right: str) -> bool:
        """Whether the visitor has a role or scope."""
        return RIGHTS[right] in self.rights
