"""Rights of people and programs: roles, which operations and pages require, and scopes, which only programs have."""

from enum import StrEnum
from typing import TYPE_CHECKING, Literal


class AccessRole(StrEnum):
    """The role that may use an operation. An operator may also do what a viewer may, an administrator both."""

    VIEWER = "viewer"
    OPERATOR = "operator"  #: acts on messages
    ADMIN = "admin"  #: acts on the node, its certificates and its institutions
    PAYLOAD = "payload"  #: returns the body of a document; a right of its own, which no other role includes


class AccessScope(StrEnum):
    """A right of programs beside the roles."""

    SUBMIT = "submit"  #: send documents
    RECEIVE = "receive"  #: receive and acknowledge documents
    EVENTS = "events"  #: follow the outcome of sent documents


# The name of a right: in the configuration, and of a token.
if TYPE_CHECKING:
    RightName = str
else:
    RightName = Literal[tuple(str(right) for right in (*AccessScope, *AccessRole))]
