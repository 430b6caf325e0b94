"""Operations on the change of the hub's authority (``authority_roll``): show it, begin it, exclude nodes from it."""

from typing import Annotated, Protocol

from msgspec import Meta
from msgspec.structs import replace

from platform_node.authority_roll import JOB, AuthorityRoll, RollStatus
from platform_node.ports import OperatedHub
from platform_node.registry import node_in
from semq.access_rights import AccessRole
from semq.engine.errors import UnknownTarget
from semq.pki.errors import NoAuthority
from semq.service.operations.arguments import Arguments, Institution
from semq.service.operations.operation import Caller, act, look

NODES_MAX = 10_000


class LeaveBehind(Arguments, frozen=True, kw_only=True):
    """Institutions for which the change does not wait."""

    nodes: Annotated[
        tuple[Institution, ...],
        Meta(max_length=NODES_MAX, description="Institutions that must enrol again when they are back."),
    ]


class ChangeAuthority(Arguments, frozen=True, kw_only=True):
    """The institutions for which the change does not wait."""

    leave_behind: Annotated[
        tuple[Institution, ...],
        Meta(max_length=NODES_MAX, description="Institutions not to wait for: they must enrol again."),
    ] = ()


class AuthorityHub(OperatedHub, Protocol):
    """The hub with the change of its authority."""

    authority_roll: AuthorityRoll | None


class AuthorityOperations:
    """The handlers."""

    def __init__(self, hub: AuthorityHub) -> None:
        self._hub = hub

    async def show(self, arguments: Arguments) -> RollStatus:
        """Show the hub's authority and its change: phase, state of each institution, nodes for which it waits."""
        return await self._roll().status()

    async def roll(self, arguments: ChangeAuthority, caller: Caller) -> RollStatus:
        """Change the hub's authority: all nodes trust the new one, get new certificates, and drop the former one.

        A change in progress is continued.
        """
        roll = self._roll()
        is_new = roll.begin(self._names(arguments.leave_behind))
        self._hub.clockwork.hasten(JOB)
        return replace(await roll.status(), began=is_new)

    async def leave(self, arguments: LeaveBehind, caller: Caller) -> RollStatus:
        """Exclude these institutions from the change of the authority; they must enrol again."""
        roll = self._roll()
        roll.leave_behind(self._names(arguments.nodes))
        self._hub.clockwork.hasten(JOB)
        return await roll.status()

    def _roll(self) -> AuthorityRoll:
        if self._hub.authority_roll is None:
            raise NoAuthority
        return self._hub.authority_roll

    def _names(self, nodes: tuple[str, ...]) -> list[str]:
        names = [str(node_in(node)) for node in nodes]
        for name in names:
            if not self._hub.is_node(name):
                raise UnknownTarget(target=name)
        return names


AUTHORITY = (
    look("ca.show", AccessRole.VIEWER, Arguments, AuthorityOperations.show),
    act("ca.roll", AccessRole.ADMIN, ChangeAuthority, AuthorityOperations.roll),
    act("ca.leave", AccessRole.ADMIN, LeaveBehind, AuthorityOperations.leave),
)
