"""Operation ``msg.trace`` of a local node, with the hub's part of the story where that is wanted.

The node asks its hub as itself (``platform_node.asked``); what the hub does not answer is named, never left out.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from local_node.requesting import VIRTUAL_HOST, request
from semq.errors import SemqError
from semq.service.reading import Reading

if TYPE_CHECKING:
    from local_node.node import LocalNode

EXCHANGE = "semq.ask"


class Traces:
    """The handler."""

    def __init__(self, node: "LocalNode") -> None:
        self._node = node
        self._reading = Reading(node)

    async def trace(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Every line about one message: of this node's ledger, and of the hub's with the argument ``with_hub``."""
        told = await self._reading.trace(arguments)
        if not arguments.get("with_hub"):
            return told
        own = [{"node": str(self._node.address), **event} for event in told["events"]]
        try:
            config = self._node.uplink.way_to(VIRTUAL_HOST)
            theirs = await request(config, self._node.clock, EXCHANGE, "trace", {"lk0": told["lk0"]})
        except SemqError as error:
            return told | {"events": own, "unheard": str(error)}
        hubs = [{"node": theirs["node"], **event} for event in theirs["events"]]
        # By their times, which are those of two clocks; of equals ours first.
        return told | {"events": sorted(own + hubs, key=lambda event: event["at"]), "unheard": None}
