"""Operation on the instances of the hub: list them (``platform_node.cluster``)."""

from typing import Any

from platform_node.operated import OperatedHub
from semq.access_rights import AccessRole
from semq.moments import utc_text
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import look
from semq.store.control.cluster import instances


class InstanceOperations:
    """The handler."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node

    async def list(self, arguments: Arguments) -> list[dict[str, Any]]:
        """List the instances of the hub and the store that each serves, those that ended in the last day included."""
        if self._node.membership is None:
            return []
        return [
            {
                "store": f"{one.semq_id}.{one.semq_db_id}",
                "host": one.host,
                "endpoint": one.endpoint,
                "alive": one.is_alive,
                "started": utc_text(one.started_at),
                "life": f"{one.life:x}",
            }
            for one in await self._node.control(instances)
        ]


INSTANCES = (look("hub.instances", AccessRole.VIEWER, Arguments, InstanceOperations.list),)
