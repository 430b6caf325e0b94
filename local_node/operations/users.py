"""Operation on the users of institutions: those that one document may reach together, and who of them receives now."""

from typing import Annotated, Any

from msgspec import Meta

from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.service.operations.arguments import Arguments, Institution
from semq.service.operations.operation import look
from semq.umx_t.address import NodeType, parse_address

LIST_MAX = 50_000  # more than a node knows


class ListUsers(Arguments, frozen=True, kw_only=True):
    """The selection of users."""

    node: Annotated[Institution | None, Meta(description="Only users of this institution.")] = None
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX, description="Users, at most.")] = LIST_MAX


class UserOperations:
    """The handler."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def list(self, arguments: ListUsers) -> list[dict[str, Any]]:
        """List users of institutions: those named in the definitions, and own ones; first those who receive now."""
        partners, own = self._node.engine.partners, str(self._node.address)
        named = [one for name, group in partners.groups.items() if _is_of_users(name) for one in group.members]
        here = self._node.inboxes.users_present()
        found = dict.fromkeys([*named, *(f"{own}/{user}" for user in here)])
        present = {f"{node}/{user}" for node, users in (*partners.present.items(), (own, here)) for user in users}
        wanted = None if arguments.node is None else parse_address(arguments.node).node
        some = sorted((str(one) not in present, one) for one in map(parse_address, found) if wanted in (None, one.node))
        return [
            {"node": str(one.node), "user": one.user, "present": not is_away}
            for is_away, one in some[: arguments.limit]
        ]


def _is_of_users(group: str) -> bool:
    return parse_address(group).type == NodeType.USERS


USERS = (look("users.list", AccessRole.VIEWER, ListUsers, UserOperations.list),)
