"""Operations on the instances of the hub: list, check."""

from socket import gethostname

from msgspec.structs import asdict

from platform_node.ports import OperatedHub
from semq.access_rights import AccessRole
from semq.answers import OperationAnswer
from semq.answers.status import NodeHealth
from semq.moments import utc_text
from semq.service.monitoring.health import health
from semq.service.operations.arguments import Arguments
from semq.service.operations.operation import look
from semq.store.control.cluster import instances


class InstanceState(OperationAnswer, frozen=True, kw_only=True):
    """An instance of the hub."""

    store: str  #: the store that it serves
    host: str
    endpoint: str
    alive: bool
    started: str
    life: str  #: distinguishes two starts on one host


class InstanceHealth(NodeHealth, frozen=True, kw_only=True):
    """The checks of an instance of the hub."""

    store: str  #: the store that it serves
    host: str


class InstanceOperations:
    """The handlers."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node

    async def health(self, arguments: Arguments) -> list[InstanceHealth]:
        """Check all instances of the hub: the store that each serves, its checks, and their worst verdict.

        This handler checks its own instance; ``all_stores.fan_out`` asks all.
        """
        checked = health(str(self._node.address), await self._node.checks())
        store = f"{self._node.own_store.semq_id}.{self._node.own_store.semq_db_id}"
        return [InstanceHealth(store=store, host=gethostname(), **asdict(checked))]

    async def list_all(self, arguments: Arguments) -> list[InstanceState]:
        """List the instances of the hub and the store that each serves, including those that ended in the last day."""
        if self._node.membership is None:
            return []
        return [
            InstanceState(
                store=f"{instance.semq_id}.{instance.semq_db_id}",
                host=instance.host,
                endpoint=instance.endpoint,
                alive=instance.is_alive,
                started=utc_text(instance.started_at),
                life=f"{instance.life:x}",
            )
            for instance in await self._node.control(instances)
        ]


INSTANCES = (
    look("hub.instances", AccessRole.VIEWER, Arguments, InstanceOperations.list_all),
    look("hub.health", AccessRole.VIEWER, Arguments, InstanceOperations.health),
)
