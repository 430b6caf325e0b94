"""Rights of people and programs: roles, which operations and pages require, and scopes, which only programs have."""

from enum import StrEnum
from typing import TYPE_CHECKING, Literal


class AccessRole(StrEnum):
    """The role that an operation requires. An operator also has the rights of a viewer; an administrator has the rights
    of both.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"  #: acts on messages
    ADMIN = "admin"  #: acts on the node, its certificates and its institutions
    PAYLOAD = "payload"  #: returns the body of a document; a right of its own, which no other role includes


class AccessScope(StrEnum):
    """A right of programs beside the roles."""

    SUBMIT = "submit"  #: send documents
    RECEIVE = "receive"  #: receive and acknowledge documents
    EVENTS = "events"  #: follow the outcome of sent documents


# The name of a right, as the configuration and tokens list it.
if TYPE_CHECKING:
    RightName = str
else:
    RightName = Literal[tuple(str(right) for right in (*AccessScope, *AccessRole))]
