"""Rights: roles, which people and programs can have, and scopes, which only programs can have.

Operations of the node and pages require roles; endpoints of the HTTP API without an operation require scopes.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, Literal


class AccessRole(StrEnum):
    """The role that an operation or page requires. An operator also has the rights of a viewer; an administrator has
    the rights of both.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"  #: may act on messages
    ADMIN = "admin"  #: may act on the node, its certificates and its institutions
    PAYLOAD = "payload"  #: may read bodies of documents; no other role includes this right


class AccessScope(StrEnum):
    """A right that only programs can have."""

    SUBMIT = "submit"  #: send documents
    RECEIVE = "receive"  #: receive and acknowledge documents
    EVENTS = "events"  #: follow the outcome of sent documents


# The name of a role or scope in the configuration and in tokens.
if TYPE_CHECKING:
    RightName = str
else:
    RightName = Literal[tuple(str(right) for right in (*AccessScope, *AccessRole))]
