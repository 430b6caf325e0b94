"""Operation ``msg.trace`` of a local node; with ``parties`` it returns the records of sender, hub and receiver.

The node asks its hub, which passes the question on to the node at the other end. If there is no hub, or the hub does
not answer, the other end is asked directly if this node dials it (``partner_questions``). A node with a certificate
signs its answer for this question (``proved``). If a required signature is missing, the answer is left out.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from local_node.link.single_request import VIRTUAL_HOST, request
from local_node.ports import OperatedLocalNode
from semq.access_rights import AccessRole
from semq.answers.messages import MessageTrace, TracedLine, Unanswered
from semq.errors import SemqError
from semq.service import story
from semq.service.operations.messages import MessageReading, TraceMessage
from semq.service.operations.operation import look
from semq.store.rows import Event
from semq.store.views import submissions
from semq.transport.dialer import DialConfig
from semq.umx_t.address import parse_address

EXCHANGE = "semq.ask"
PATIENCE_S = 6.0  # less than the time limit of a command
# Events of lines that may exist about a submission that was never accepted.
BEFORE_ACCEPTANCE = frozenset({Event.REFUSED.name, Event.OPERATOR.name, *submissions.OPEN})
NOT_DIALLED = "it can be asked only over a link that this node dials; its operator can trace the document there"
DIRECT_PATIENCE_S = 3.0
GROUP = "the document to each member has a name of its own (`semq msg show` lists them)"
Events = list[TracedLine]


class Traces:
    """The handler."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node
        self._reading = MessageReading(node)

    async def trace(self, arguments: TraceMessage) -> MessageTrace:
        """Return all ledger lines about one document, on request also those of the hub and the other end."""
        traced = await self._reading.trace(arguments.id)
        if not arguments.parties:
            return traced
        own_events: Events = [{"node": str(self._node.address), **event} for event in traced["events"]]
        traced["events"] = own_events
        if "members" in traced:
            return {**traced, "unanswered": [{"node": "hub and receivers", "why": GROUP}]}
        if all(line["side"] == "sender" and line["event"] in BEFORE_ACCEPTANCE for line in own_events):
            return {**traced, "unanswered": []}  # no other node knows a submission that was never accepted
        further, unanswered = await self._other_parties(traced["lk0"], own_events)
        # By the time of each node's clock; among equal times this node's lines first.
        return {
            **traced,
            "events": sorted(own_events + further, key=lambda event: event["at"]),
            "unanswered": unanswered,
        }

    async def _other_parties(self, lk0: str, events: Sequence[Mapping[str, object]]) -> tuple[Events, list[Unanswered]]:
        target = next((story.target_node(line) for line in events if line["event"] == Event.ACCEPTED.name), "")
        return await self.ask_parties(lk0, target)

    async def ask_parties(self, lk0: str, target: str) -> tuple[Events, list[Unanswered]]:
        """Return the lines of hub and other end, and the parties without an answer, with reasons."""
        nonce = self._node.clock.uuid().hex
        hub = self._node.parts.hub.dial_config_for(VIRTUAL_HOST)
        if hub is None:
            return await self._ask_directly(lk0, nonce, target)
        lines, unanswered = await self._ask_hub(hub, lk0, nonce, target)
        if len(unanswered) > 1 and self._dial_config(lk0, target) is not None:
            answered, still_unanswered = await self._ask_directly(lk0, nonce, target)
            return [*lines, *answered], [unanswered[0], *still_unanswered]
        return lines, unanswered

    async def _ask_hub(self, config: DialConfig, lk0: str, nonce: str, target: str) -> tuple[Events, list[Unanswered]]:
        """Return the lines of hub and other end; ``unanswered`` names both if the hub does not answer."""
        question = {"lk0": lk0, "nonce": nonce, "target": target}
        try:
            async with asyncio.timeout(PATIENCE_S):
                reply = await request(config, self._node.clock, EXCHANGE, "trace", question)
        except TimeoutError:
            return [], _unanswered("hub", f"it did not answer within {PATIENCE_S:.0f} s", target)
        except SemqError as error:
            return [], _unanswered("hub", str(error), target)
        link = self._node.parts.hub.link
        hub = str(link.peer) if link is not None else "hub"  # from the session, not from the answer
        try:
            lines: Events = [{**story.checked_event(event), "node": hub} for event in reply.get("events") or []]
        except (TypeError, ValueError) as error:
            return [], _unanswered(hub, f"its answer cannot be read: {error}", target)
        return self._merge(lines, hub, reply.get("other"), lk0, nonce, target)

    async def _ask_directly(self, lk0: str, nonce: str, target: str) -> tuple[Events, list[Unanswered]]:
        other_end = self._other_end(lk0, target)
        if other_end == str(self._node.address):
            return [], []
        config = self._dial_config(lk0, target)
        if config is None:
            return [], [{"node": other_end or "the other end", "why": NOT_DIALLED}]
        try:
            async with asyncio.timeout(DIRECT_PATIENCE_S):
                question = {"lk0": lk0, "nonce": nonce}
                reply = await request(config, self._node.clock, EXCHANGE, "trace", question, other_end)
        except TimeoutError:
            return [], [{"node": other_end, "why": f"it did not answer within {DIRECT_PATIENCE_S:.0f} s"}]
        except SemqError as error:
            return [], [{"node": other_end, "why": str(error)}]
        return self._merge([], other_end, reply.get("other"), lk0, nonce, target)

    def _other_end(self, lk0: str, target: str) -> str:
        """Return the node at the other end of a document; empty if unknown."""
        source = ".".join(lk0.split(".")[:2])
        return target if source == str(self._node.address) else source

    def _dial_config(self, lk0: str, target: str) -> DialConfig | None:
        """Return how to dial the other end of a document; None if this node does not dial it."""
        other_end = self._other_end(lk0, target)
        direct = self._node.parts.direct
        if direct is None or not other_end:
            return None
        return direct.dial_config_for(parse_address(other_end), VIRTUAL_HOST)

    def _merge(
        self, lines: Events, replier: str, answer: object, lk0: str, nonce: str, target: str
    ) -> tuple[Events, list[Unanswered]]:
        """Add the checked answer of the other end to the lines of the hub; return also the parties without an answer.

        ``replier``: the hub, or after a direct question the other end. ``answer``: the part of the reply that comes
        from the other end.
        """
        own_address = str(self._node.address)
        answerer = self._other_end(lk0, target)  # from the locator, not from the hub
        if answerer == own_address:
            return lines, []
        is_direct = replier == answerer
        if not isinstance(answer, dict):
            why = (
                "its version does not answer questions"
                if is_direct
                else "the version of the hub does not pass questions on"
            )
            return lines, [{"node": answerer, "why": why}]
        if "unanswered" in answer:
            says = "it says" if is_direct else f"says {replier}"
            return lines, [{"node": answerer, "why": f"{says}: {answer['unanswered']}"}]
        keys = self._node.sealing.keys if self._node.sealing is not None else None
        text = str(answer.get("story")).encode("utf-8", "surrogatepass")
        try:
            signed = story.signed_bytes(answerer, own_address, nonce, lk0, text)
            proved = story.is_proved(keys, answerer, signed, str(answer.get("signature") or ""))
            answered = story.read(text)
        except (SemqError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            passed_on = f"{replier} passed on an answer that {answerer} did not give"
            fault = "it gave an unproved answer" if is_direct else passed_on
            return lines, [{"node": answerer, "why": f"{fault}: {error}"}]
        proven: Events = [{"node": answerer, "via": replier, "proved": proved, **line} for line in answered]
        return [*lines, *proven], []


TRACE = (look("msg.trace", AccessRole.VIEWER, TraceMessage, Traces.trace),)


def _unanswered(hub: str, why: str, target: str) -> list[Unanswered]:
    return [{"node": hub, "why": why}, {"node": target or "the other end", "why": "its answers arrive through the hub"}]
