"""Operation ``users.list``: the users of institutions, and whether a program receives their documents now."""

from typing import Annotated

from msgspec import Meta

from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.service.operations.arguments import Arguments, Institution
from semq.service.operations.operation import look
from semq.umx_t.address import NodeType, parse_address

LIST_MAX = 50_000  # more users than a node records


class ListUsers(Arguments, frozen=True, kw_only=True):
    """The selection of users."""

    node: Annotated[Institution | None, Meta(description="Only users of this institution.")] = None
    limit: Annotated[int, Meta(ge=1, le=LIST_MAX, description="Users, at most.")] = LIST_MAX


class UserState(OperationAnswer, frozen=True, kw_only=True):
    """A user of an institution."""

    node: str
    user: str
    present: bool  #: a program receives the user's documents now


class UserOperations:
    """The handler."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node

    async def list_all(self, arguments: ListUsers) -> list[UserState]:
        """List users: those in the definitions, and those of this institution who receive now; present users first."""
        partners, own_address = self._node.engine.partners, str(self._node.address)
        present_by_node = {**partners.present, own_address: self._node.parts.inboxes.users_present()}
        present = {f"{node}/{user}" for node, users in present_by_node.items() for user in users}
        users = {f"{own_address}/{user}" for user in present_by_node[own_address]}
        for name, group in partners.groups.items():
            if parse_address(name).type == NodeType.USERS:
                users.update(group.members)
        node = None if arguments.node is None else parse_address(arguments.node).node
        addresses = [address for address in map(parse_address, users) if node in (None, address.node)]
        addresses.sort(key=lambda address: (str(address) not in present, address))
        return [
            UserState(node=str(address.node), user=address.user, present=str(address) in present)
            for address in addresses[: arguments.limit]
        ]


USERS = (look("users.list", AccessRole.VIEWER, ListUsers, UserOperations.list_all),)
