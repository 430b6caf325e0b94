"""Operations ``node.*`` of both kinds of nodes: status, health, metrics, reload, and the list of operations."""

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any, Literal

import structlog
from msgspec import Meta

from semq.access_rights import AccessRole
from semq.answers.status import NodeHealth, NodeStatus
from semq.errors import Unavailable
from semq.service.monitoring.health import health
from semq.service.monitoring.metrics import Figures, render
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import BoundOperation, Caller, DescribedOperation, act, look
from semq.service.operations.ports import OperatedNode
from semq.service.operations.reload import Reloaded

log = structlog.get_logger("semq.operations")


class ReloadConfiguration(Arguments, frozen=True, kw_only=True):
    """Options of a reload."""

    dry_run: Annotated[bool, Meta(description="Change nothing; only return the differences.")] = False


class ReadMetrics(Arguments, frozen=True, kw_only=True):
    """The selection of figures, and their format."""

    detailed: Annotated[bool, Meta(description="Also the figures of each partner.")] = False
    format: Annotated[
        Literal["text", "openmetrics"], Meta(description="Text format 0.0.4 of Prometheus, or OpenMetrics 1.0.0.")
    ] = "text"


class NodeOperations:
    """The handlers of ``node.*``."""

    def __init__(self, node: OperatedNode) -> None:
        self._node = node

    async def status(self, arguments: Arguments) -> NodeStatus:
        """Show identity, state and figures of this node."""
        return await self._node.status()

    async def health(self, arguments: Arguments) -> NodeHealth:
        """Check whether the node needs attention, now or soon."""
        return health(str(self._node.address), await self._node.checks())

    async def metrics(self, arguments: ReadMetrics) -> dict[str, str]:
        """Return the figures of this node for Prometheus; those of the queues are from the last census."""
        node, queues, causes = self._node, {}, {}
        status = NodeStatus(node=str(node.address), kind=node.settings.node.kind, store_open=False)
        try:
            status = await node.status()
            queues, causes = await self._read("queue.census"), await self._read("stuck.causes")
        except Unavailable:  # the answer has only the figures that need no database
            log.warning("metrics_without_database")
        now_ms = int(node.clock.wall().timestamp() * 1000)
        figures = Figures(status, node.settings.tls.warn_days, now_ms, queues, causes, node.latency())
        openmetrics = arguments.format == "openmetrics"
        text = await asyncio.to_thread(render, figures, detailed=arguments.detailed, openmetrics=openmetrics)
        return {"text": text}

    async def _read(self, operation: str) -> Any:
        return await self._node.operations[operation]({}, Caller("metrics", "node.metrics"))

    async def reload(self, arguments: ReloadConfiguration, caller: Caller) -> Reloaded:
        """Read the configuration again and apply what can change without a restart."""
        return await self._node.reloading.reload(dry_run=arguments.dry_run)

    async def operations(self, arguments: Arguments) -> list[DescribedOperation]:
        """List the operations of this node: name, kind, role, summary, JSON schema of the arguments."""
        rows: Iterable[BoundOperation] = self._node.operations.values()
        return [row.operation.described() for row in sorted(rows, key=lambda row: row.operation.name)]


NODE = (
    look("node.status", AccessRole.VIEWER, Arguments, NodeOperations.status),
    look("node.health", AccessRole.VIEWER, Arguments, NodeOperations.health),
    look("node.metrics", AccessRole.VIEWER, ReadMetrics, NodeOperations.metrics),
    look("node.operations", AccessRole.VIEWER, Arguments, NodeOperations.operations),
    act("node.reload", AccessRole.ADMIN, ReloadConfiguration, NodeOperations.reload),
)
