"""Rights: roles for people and programs, and scopes for programs."""

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, Literal


class AccessRole(StrEnum):
    """The role that an operation or page requires. OPERATOR includes VIEWER; ADMIN includes both."""

    VIEWER = "viewer"
    OPERATOR = "operator"  #: may act on messages
    ADMIN = "admin"  #: may act on the node, its certificates and its institutions
    PAYLOAD = "payload"  #: may read bodies of documents; no other role includes it


class AccessScope(StrEnum):
    """A right for programs. The role ``admin`` includes EVENTS."""

    SUBMIT = "submit"  #: send documents
    RECEIVE = "receive"  #: receive and acknowledge documents
    EVENTS = "events"  #: follow the outcome of sent documents


Right = AccessRole | AccessScope
RIGHTS: dict[str, Right] = {str(right): right for right in (*AccessRole, *AccessScope)}
# Right | the rights that it includes
INCLUDED: dict[Right, tuple[Right, ...]] = {
    AccessRole.OPERATOR: (AccessRole.VIEWER,),
    AccessRole.ADMIN: (AccessRole.OPERATOR, AccessRole.VIEWER, AccessScope.EVENTS),
}
# The name of a role or scope in the configuration and in tokens.
if TYPE_CHECKING:
    RightName = str
else:
    RightName = Literal[tuple(str(right) for right in (*AccessScope, *AccessRole))]


def rights_of(names: Iterable[str]) -> frozenset[Right]:
    """Return the rights with these names, and the rights that these include; unknown names are ignored."""
    named = {RIGHTS[name] for name in names if name in RIGHTS}
    return frozenset(named.union(*(INCLUDED.get(right, ()) for right in named)))
