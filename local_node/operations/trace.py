"""Operation ``msg.trace`` of a local node: with ``parties`` the records of a message at sender, hub and receiver.

The node asks its hub (``platform_node.ask_exchange``), which passes the question on to the node at the other end. Each
line names its node. The answer of the other end comes through the hub: with a certificate it is signed for this
question (``proved``); if a required signature is missing, the answer is left out and reported. Parties that do not
answer are listed in ``unheard``.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from local_node.link.hub_request import VIRTUAL_HOST, request
from local_node.operated import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.errors import SemqError
from semq.service import story
from semq.service.operations.messages import MessageReading, TraceMessage
from semq.service.operations.operation import look
from semq.store.rows import Event
from semq.store.views import submissions

EXCHANGE = "semq.ask"
PATIENCE_S = 6.0  # less than the time limit of a command
BEFORE_ACCEPTANCE = frozenset({Event.REFUSED.name, Event.OPERATOR.name, *submissions.OPEN})
NO_HUB = "no hub passes the question on; its operator can trace the document there"
Events = list[dict[str, Any]]


class Traces:
    """The handler."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node
        self._reading = MessageReading(node)

    async def trace(self, arguments: TraceMessage) -> dict[str, Any]:
        """Return all ledger lines about one message, on request also those of the hub and the other end."""
        traced = await self._reading.trace(arguments.id)
        if not arguments.parties:
            return traced
        if all(line["side"] == "sender" and line["event"] in BEFORE_ACCEPTANCE for line in traced["events"]):
            return traced | {"unheard": []}  # a submission that was never accepted is unknown to others
        own: Events = [{"node": str(self._node.address), **event} for event in traced["events"]]
        others, unheard = await self._others(traced["lk0"], traced["events"])
        # Sorted by time, of several clocks; among equal times this node's lines first.
        return traced | {"events": sorted(own + others, key=lambda event: event["at"]), "unheard": unheard}

    async def _others(self, lk0: str, events: Sequence[Mapping[str, Any]]) -> tuple[Events, list[dict[str, str]]]:
        """Return the result of ``asked`` for a message of which this node has lines."""
        target = next((story.node_of(line) for line in events if line["event"] == Event.ACCEPTED.name), "")
        return await self.asked(lk0, target)

    async def asked(self, lk0: str, target: str) -> tuple[Events, list[dict[str, str]]]:
        """Return the lines of hub and other end, and the parties without an answer, with reasons."""
        if self._node.settings.has_no_hub:
            return [], self._without_hub(lk0, target)
        nonce = self._node.clock.uuid().hex
        asked = {"lk0": lk0, "nonce": nonce, "target": target}
        try:
            async with asyncio.timeout(PATIENCE_S):
                config = self._node.uplink.way_to(VIRTUAL_HOST)
                theirs = await request(config, self._node.clock, EXCHANGE, "trace", asked)
        except TimeoutError:
            return [], _unheard("hub", f"it did not answer within {PATIENCE_S:.0f} s", target)
        except SemqError as error:
            return [], _unheard("hub", str(error), target)
        link = self._node.uplink.link
        hub = str(link.peer) if link is not None else "hub"  # from the session, not from the answer
        try:
            lines: Events = [{**story.read_line(event), "node": hub} for event in theirs.get("events") or []]
        except (TypeError, ValueError) as error:
            return [], _unheard(hub, f"its answer cannot be read: {error}", target)
        return self._merged(lines, hub, theirs.get("other"), lk0, nonce, target)

    def _without_hub(self, lk0: str, target: str) -> list[dict[str, str]]:
        """Return the other end as a party without an answer."""
        me, source = str(self._node.address), ".".join(lk0.split(".")[:2])
        other = target if source == me else source
        return [] if other == me else [{"node": other or "the other end", "why": NO_HUB}]

    def _merged(
        self, lines: Events, hub: str, other: Any, lk0: str, nonce: str, target: str
    ) -> tuple[Events, list[dict[str, str]]]:
        me = str(self._node.address)
        source = ".".join(lk0.split(".")[:2])
        teller = target if source == me else source  # from the locator, not from the hub
        if teller == me:
            return lines, []
        if not isinstance(other, dict):
            return lines, [{"node": teller, "why": "the version of the hub does not pass questions on"}]
        if "unheard" in other:
            return lines, [{"node": teller, "why": f"says {hub}: {other['unheard']}"}]
        keys = self._node.sealing.keys if self._node.sealing is not None else None
        said = str(other.get("story")).encode("utf-8", "surrogatepass")
        try:
            proved = story.is_proved(keys, teller, me, nonce, lk0, said, str(other.get("signature") or ""))
            theirs = story.read(said)
        except (SemqError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return lines, [{"node": teller, "why": f"{hub} passed on what is not {teller}'s word: {error}"}]
        return [*lines, *({"node": teller, "via": hub, "proved": proved, **line} for line in theirs)], []


TRACE = (look("msg.trace", AccessRole.VIEWER, TraceMessage, Traces.trace),)


def _unheard(hub: str, why: str, target: str) -> list[dict[str, str]]:
    return [{"node": hub, "why": why}, {"node": target or "the other end", "why": "its answers arrive through the hub"}]
