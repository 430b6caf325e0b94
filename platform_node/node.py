"""The platform as a process: its engine, its institutions' queues, and its administrators' door."""

from collections.abc import Mapping
from typing import Any

from platform_node.directory import ConfiguredDirectory
from platform_node.links import UMX, Links
from semq.amqp.errors import ConnectionForced
from semq.broker.users import Authenticator, Permissions, User
from semq.broker.vhost import SessionHooks
from semq.engine.hub import HubEngine
from semq.engine.schedule import Schedule
from semq.engine.stuck import Surroundings
from semq.service.admin import Handler
from semq.service.inquiring import inquire_handler
from semq.service.node import APPLICATIONS, Node
from semq.service.reading import reading_handlers
from semq.store.unit import Recovered
from semq.umx_t.address import Address, NodeType


class PlatformNode(Node[HubEngine]):
    """The hub."""

    vhosts = (APPLICATIONS, UMX)

    def build_engine(self, recovered: Recovered) -> HubEngine:
        self.directory = ConfiguredDirectory(self.settings.nodes)
        return HubEngine(
            self.home, recovered, self.store, self.clock, self.engine_settings(), self.directory, self.clockwork.on_mail
        )

    def authenticator(self) -> Authenticator:
        # A link's user is the node's own address: what it publishes is compared with it.
        links = [
            User(str(Address(NodeType.LOCAL, node_id)), self._hash(account.password.get_secret_value()), {UMX: LINK})
            for node_id, account in self.settings.nodes.items()
            if account.password is not None
        ]
        return self.user_table(self.application_users() + links)

    def register(self) -> None:
        self.links = Links(lambda: self.engine, self.turn, self.settings.protocol.credit_bytes)
        nodes = {node_id: Address(NodeType.LOCAL, node_id) for node_id in self.settings.nodes}
        vhost = self.server.vhosts[UMX]
        for service in self.links.services(nodes):
            vhost.register(service)
        vhost.hooks.append(SessionHooks(on_open=self.links.opened))

    async def began(self) -> None:
        # The new engine knows no sessions: the nodes come again, and ask about what is in doubt.
        self.links.end_all(ConnectionForced("the platform has opened its store anew"))

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "node.status": self.status,
            "nodes.list": self.nodes_list,
            "msg.inquire": inquire_handler(self, self._schedule_of, lambda: self.engine.core.now()),
            **reading_handlers(self),
        }

    def _schedule_of(self, side: str) -> Schedule | None:
        return self.engine.holding.schedule if side == "outbound" else None

    async def nodes_list(self, arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Operation ``nodes.list``: the institutions, who is online, and what waits for them."""
        return [
            {
                "node": str(node),
                "online": str(node) in self.engine.sessions,
                "held": self.engine.holding.held.get(str(node), 0),
                **self._life(str(node)),
            }
            for node in self.directory.nodes()
        ]

    def surroundings(self) -> Surroundings:
        """What is known beside the rows, for the causes of what is stuck."""
        return Surroundings(
            now_ms=self.engine.core.now_ms(),
            overdue_ms=int(self.settings.protocol.overdue_s * 1000),
            online=frozenset(self.engine.sessions),
        )

    def _life(self, node: str) -> dict[str, Any]:
        life = self.links.lives.get(node)
        return {"store_uuid": life.store_uuid, "boot": life.boot, "incarnation": life.incarnation} if life else {}

    def engine_counters(self) -> Mapping[str, int]:
        return self.engine.core.counters.counts


LINK = Permissions(configure="^$", write="^umx$", read=r"^node\.")
