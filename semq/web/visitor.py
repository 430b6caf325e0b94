"""Who asks: a person in a session, or a program with a token, a certificate or a password; and what they may do.

Roles are those of the table of operations; scopes are rights of programs that no operation has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """The role that may use an operation or a page. An operator may also do what a viewer may, an admin both."""

    VIEWER = "viewer"
    OPERATOR = "operator"  #: acts on messages
    ADMIN = "admin"  #: acts on the node, its certificates and its institutions
    PAYLOAD = "payload"  #: sees bodies of documents; a right of its own, which no other role includes


class Scope(StrEnum):
    """Rights of programs beside the roles."""

    SUBMIT = "submit"  #: send documents
    RECEIVE = "receive"  #: receive and acknowledge documents
    EVENTS = "events"  #: follow the outcome of sent documents


Right = Role | Scope
RIGHTS: dict[str, Right] = {str(one): one for one in (*Role, *Scope)}
# Right | those that it includes
INCLUDED: dict[Right, tuple[Right, ...]] = {
    Role.OPERATOR: (Role.VIEWER,),
    Role.ADMIN: (Role.OPERATOR, Role.VIEWER, Scope.EVENTS),
}
EVERYTHING = frozenset(RIGHTS.values())


def rights_of(names: Iterable[str]) -> frozenset[Right]:
    """Return rights by name, with those that they include; unknown names give nothing."""
    own = {RIGHTS[name] for name in names if name in RIGHTS}
    return frozenset(own.union(*(INCLUDED.get(one, ()) for one in own)))


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who makes a request."""

    name: str
    via: str  #: session, link, token, password, certificate
    peer: str  #: address
    rights: frozenset[Right]
    inbox: str | None = None  #: the only user whose inbox it may open; None: any

    @property
    def key(self) -> str:
        """The name under which requests are counted."""
        return f"{self.via}:{self.name}"

    @property
    def roles(self) -> frozenset[Role]:
        """Those of the rights that are roles."""
        return frozenset(one for one in self.rights if isinstance(one, Role))

    def may(self, right: str) -> bool:
        """Whether the visitor has a role or scope."""
        return RIGHTS[right] in self.rights
