"""Operations on all institutions of a virtual server, in virtual host ``/`` of its port."""

from typing import Annotated, Any, Protocol

from msgspec import Meta

from local_node.virtual.institution import HostedFacts, HostedInstitution
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.service.errors import BadArguments
from semq.service.operations.arguments import ADDRESS_MAX, Arguments
from semq.service.operations.operation import Caller, act, look


class ByHosted(Arguments, frozen=True, kw_only=True):
    """One institution of the server."""

    institution: Annotated[str, Meta(min_length=1, max_length=ADDRESS_MAX, description="Number of the institution.")]


class ServerChanges(OperationAnswer, frozen=True, kw_only=True):
    """The changes found by a new reading of the file."""

    added: list[str]
    removed: list[str]
    changed: dict[str, dict[str, Any]]  #: by institution, the changes of its settings (``Reloaded``), or its fault
    failing: dict[str, str]  #: by institution, the fault


class Restarting(OperationAnswer, frozen=True, kw_only=True):
    """An institution whose node is being restarted."""

    institution: str


class OperatedServer(Protocol):
    """The part of the server that its operations use."""

    institutions: dict[str, HostedInstitution]

    async def reload(self) -> ServerChanges:
        """Read the file again, and add, remove and reload institutions."""


class ServerOperations:
    """The handlers."""

    def __init__(self, server: OperatedServer) -> None:
        self._server = server

    async def list_all(self, arguments: Arguments) -> list[HostedFacts]:
        """List the institutions: state, link, backlog, connections, memory, and the last error."""
        return [institution.facts() for _, institution in sorted(self._server.institutions.items())]

    async def reload(self, arguments: Arguments, caller: Caller) -> ServerChanges:
        """Read the file again: start new institutions, end removed ones, reload the others."""
        return await self._server.reload()

    async def restart(self, arguments: ByHosted, caller: Caller) -> Restarting:
        """Stop the node of one institution and start it with the present file."""
        institution = self._server.institutions.get(arguments.institution)
        if institution is None:
            raise BadArguments(
                "This server has no such institution; server.list shows those that it has.",
                institution=arguments.institution,
            )
        institution.restart()
        return Restarting(institution=institution.name)


OPERATIONS = (
    look("server.list", AccessRole.VIEWER, Arguments, ServerOperations.list_all),
    act("server.reload", AccessRole.ADMIN, Arguments, ServerOperations.reload),
    act("server.restart", AccessRole.ADMIN, ByHosted, ServerOperations.restart),
)
