"""Operations ``node.*`` of both kinds of nodes: status, health, metrics, reload, and the table of operations itself."""

from collections.abc import Iterable
from typing import Annotated, Any, Protocol

from msgspec import Meta

from semq.config.settings import Settings
from semq.service.health import Check, health, metrics
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import Bound, Caller, Role, act, look
from semq.service.operations.reload import Reloading
from semq.umx_t.address import Address


class ReloadConfiguration(Arguments, frozen=True, kw_only=True):
    """How the configuration is read again."""

    dry_run: Annotated[bool, Meta(description="Change nothing; only return the differences.")] = False


class Running(Protocol):
    """What the operations need of a node."""

    settings: Settings
    address: Address
    operations: dict[str, Bound]
    reloading: Reloading

    async def status(self) -> dict[str, Any]:
        """Return identity, state and figures."""

    async def checks(self) -> list[Check]:
        """Return the health checks with their verdicts."""


class NodeOperations:
    """The handlers."""

    def __init__(self, node: Running) -> None:
        self._node = node

    async def status(self, arguments: Arguments) -> dict[str, Any]:
        """Show identity, state and figures of this node."""
        return await self._node.status()

    async def health(self, arguments: Arguments) -> dict[str, Any]:
        """Check whether the node needs attention, now or soon."""
        return health(str(self._node.address), await self._node.checks())

    async def metrics(self, arguments: Arguments) -> dict[str, str]:
        """Return the figures of this node in the text format of Prometheus."""
        return {"text": metrics(await self._node.status(), self._node.settings.tls.warn_days)}

    async def reload(self, arguments: ReloadConfiguration, caller: Caller) -> dict[str, Any]:
        """Read the configuration again and apply what can change without a restart."""
        return await self._node.reloading.reload(dry_run=arguments.dry_run)

    async def operations(self, arguments: Arguments) -> list[dict[str, Any]]:
        """List the operations of this node: name, kind, role, summary, JSON schema of the arguments."""
        rows: Iterable[Bound] = self._node.operations.values()
        return [row.operation.described() for row in sorted(rows, key=lambda row: row.operation.name)]


NODE = (
    look("node.status", Role.VIEWER, Arguments, NodeOperations.status),
    look("node.health", Role.VIEWER, Arguments, NodeOperations.health),
    look("node.metrics", Role.VIEWER, Arguments, NodeOperations.metrics),
    look("node.operations", Role.VIEWER, Arguments, NodeOperations.operations, "any program"),
    act("node.reload", Role.ADMIN, ReloadConfiguration, NodeOperations.reload),
)
