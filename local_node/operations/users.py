"""Operation on the users of institutions: those that one document may reach together, and who of them receives now."""

from typing import Annotated, Any

from msgspec import Meta

from local_node.operated import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.service.operations.arguments import Arguments, Institution
from semq.service.operations.operation import look
from semq.umx_t.address import NodeType, parse_address


class ListUsers(Arguments, frozen=True, kw_only=True):
    """The selection of users."""

    node: Annotated[Institution | None, Meta(description="Only users of this institution.")] = None


class UserOperations:
    """The handler."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def list(self, arguments: ListUsers) -> list[dict[str, Any]]:
        """List users of institutions, as the definitions name them, and own ones; ``present``: a program receives."""
        partners, own = self._node.engine.partners, str(self._node.address)
        named = [one for name, group in partners.groups.items() if _is_of_users(name) for one in group.members]
        here = self._node.inboxes.users_present()
        found = dict.fromkeys([*named, *(f"{own}/{user}" for user in here)])
        present = {f"{node}/{user}" for node, users in (*partners.present.items(), (own, here)) for user in users}
        wanted = None if arguments.node is None else parse_address(arguments.node).node
        rows = [(str(one.node), one.user, str(one) in present) for one in map(parse_address, sorted(found))]
        return [
            {"node": node, "user": user, "present": is_present}
            for node, user, is_present in rows
            if wanted is None or node == str(wanted)
        ]


def _is_of_users(group: str) -> bool:
    return parse_address(group).type == NodeType.USERS


USERS = (look("users.list", AccessRole.VIEWER, ListUsers, UserOperations.list),)
