"""Exchange ``semq.ask`` in virtual host ``enroll``: questions of institutions to their hub about their own messages.

| operation | who              | takes                | gives                                                     |
|-----------|------------------|----------------------|-----------------------------------------------------------|
| trace     | sender or target | lk0; optional nonce, | node, events: the hub's ledger of a message; with a nonce |
|           |                  | target               | ``other``: the answer of the node at the other end; if    |
|           |                  |                      | there are any, ``unreached``: stores without an answer    |
| exchanged | an institution   | partner, nonce,      | ``other``: the answer of the partner (PROTOCOL.md section |
|           |                  | since, place         | 20), or the asker's documents that the hub has stored     |

An institution that is neither sender nor target gets the same answer as for an unknown message. The answer of the node
at the other end (``semq.service.story``) is passed on unchanged, with its signature.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from platform_node.all_stores.combination import store_text
from platform_node.all_stores.store_questions import Handler
from platform_node.logins import TOKEN_USER_PREFIX
from platform_node.ports import OperatedHub
from platform_node.question_turns import QuestionTurns
from semq.access_rights import AccessRole
from semq.answers.messages import MessageTrace, TracedLine, Unanswered
from semq.broker.services import SessionInfo
from semq.broker.vhost import VirtualHost
from semq.engine.hub.carried_link import CarriedLink
from semq.errors import SemqError
from semq.foreign_text import shortened
from semq.pki.errors import TokenRefused
from semq.service import story
from semq.service.admin import RequestExchange, typed
from semq.service.exchanged import ExchangedQuestion
from semq.service.operations.messages import MessageReading, TraceMessage
from semq.service.operations.operation import Caller, look
from semq.service.story import AskAnswer, PartyAnswer
from semq.store.rows import Event
from semq.store.views import messages
from semq.store.views.exchanged import AT_HUB, ExchangedRows, page
from semq.umx_t.address import Address, parse_address
from semq.umx_t.locator import LK0, parse_lk0

ASK_EXCHANGE = "semq.ask"
CONCURRENT_MAX = 4  # requests of one node
CONCURRENT_READS_MAX = 2  # reads of the hub's ledger
REQUEST_BYTES_MAX = 4 * 1024
NONCE_MAX = 64  # characters
# Events whose ledger lines name the target reliably; lines about violations repeat statements of impostors.
EVENTS_NAMING_TARGET = frozenset({Event.FORWARDED.name, Event.STORED.name, Event.SENT.name})
LedgerLines = Sequence[Mapping[str, object]]
LINES, STORY, EXCHANGED = "ask.lines", "ask.story", "ask.exchanged"  # questions to other instances
HUB = "hub"  # the user in these questions


class TraceQuestion(msgspec.Struct, frozen=True):
    """A question of an institution."""

    lk0: str
    nonce: str = ""
    target: str = ""


class PartnerQuestion(ExchangedQuestion, frozen=True, kw_only=True):
    """A question to a partner which documents it has exchanged with the asker."""

    partner: str
    nonce: str = ""
    signature: str = ""


class AskService:
    """The handlers of ``semq.ask``."""

    def __init__(self, node: OperatedHub) -> None:
        self._node = node
        self._reads = QuestionTurns(node.clock, CONCURRENT_READS_MAX)

    def exchange(self, vhost: VirtualHost) -> RequestExchange:
        """Return the exchange for the virtual host."""
        requests = {
            "trace": typed("trace", TraceQuestion, self.trace),
            "exchanged": typed("exchanged", PartnerQuestion, self.exchanged),
        }
        return RequestExchange(ASK_EXCHANGE, vhost, requests, CONCURRENT_MAX, REQUEST_BYTES_MAX)

    async def trace(self, session: SessionInfo, question: TraceQuestion) -> AskAnswer:
        """Answer a question. Raises BadLocator, TokenRefused, ShareUsed, and the errors of the store."""
        asker, lk0 = _asker(session), parse_lk0(question.lk0)
        async with self._reads.turn(str(asker)):
            events, unreached = await self._all_lines(str(lk0))
        targets = _targets(events)
        is_party = asker == lk0.node or str(asker) in targets
        answer: AskAnswer = {"node": str(self._node.address), "events": events if is_party else []}
        if unreached:
            answer["unreached"] = unreached
        if nonce := question.nonce[:NONCE_MAX]:
            other_end = str(lk0.node) if asker != lk0.node else question.target.partition("/")[0]
            answer["other"] = await self._ask(other_end, _about(lk0, str(asker), nonce))
        return answer

    async def exchanged(self, session: SessionInfo, question: PartnerQuestion) -> AskAnswer:
        """Answer which documents of the asker are stored, or pass a question on to a partner.

        Raises TokenRefused, BadAddress, ShareUsed, and the errors of the store.
        """
        partner, asker = str(parse_address(question.partner).node), str(_asker(session))
        if partner == str(self._node.address):
            async with self._reads.turn(asker):
                return {"other": await self._stored_page(asker, question)}
        asked = {"since": question.since, "place": question.place}
        proof = {"nonce": question.nonce[:NONCE_MAX], "signature": question.signature}
        passed_on = {"asker": asker, **proof, "exchanged": asked}
        return {"other": await self._ask(partner, passed_on)}

    def handlers(self) -> dict[str, Handler]:
        """Return the handlers of questions of other instances."""
        return {LINES: self._own_lines, STORY: self._story_of_linked_node, EXCHANGED: self._own_stored_page}

    async def _own_lines(self, arguments: Mapping[str, object], caller: Caller) -> LedgerLines:
        return await self._node.store.execute(messages.trace, str(arguments["lk0"]))

    async def _story_of_linked_node(self, arguments: Mapping[str, Any], caller: Caller) -> Mapping[str, object]:
        return await self._node.parts.questions.ask(arguments["other"], arguments["question"])

    async def _all_lines(self, lk0: str) -> tuple[LedgerLines, list[str]]:
        """Return the ledger lines of all stores, and the stores that could not be asked."""
        events = list(await self._node.store.execute(messages.trace, lk0))
        member = self._node.membership
        if member is None:
            return events, []
        others = [store for store in member.stores() if store != member.store]
        answers = await asyncio.gather(
            *(member.store_questions.ask(store, LINES, {"lk0": lk0}, HUB) for store in others)
        )
        events += [line for answer in answers for line in answer.result or ()]
        unreached = [store_text(answer.store) for answer in answers if answer.unreached or answer.error]
        return sorted(events, key=lambda line: int(line["at"])), unreached

    async def _stored_page(self, asker: str, question: PartnerQuestion) -> PartyAnswer:
        """Return a page of the documents of an institution that the hub has stored. Its stores answer in turn."""
        arguments = {"asker": asker, "since": question.since, "place": question.place_in_store}
        member, number = self._node.membership, question.store
        stores = member.stores() if member is not None else []
        if member is None or number >= len(stores) or stores[number] == member.store:
            stored = await self._own_stored_page(arguments, Caller(HUB))
        else:
            answer = await member.store_questions.ask(stores[number], EXCHANGED, arguments, HUB)
            if answer.result is None:
                why = shortened(answer.why, 300)
                return {"unanswered": f"store {store_text(stores[number])}: {why}"}
            stored = answer.result
        following = stored["next"]
        if following or number + 1 < len(stores):
            following = f"{number}~{following}" if following else f"{number + 1}~"
        return {"story": msgspec.json.encode({"rows": stored["rows"], "next": following}).decode()}

    async def _own_stored_page(self, arguments: Mapping[str, Any], caller: Caller) -> ExchangedRows:
        asked = arguments["asker"], arguments["since"], arguments["place"]
        return await self._node.store.execute(page, *asked, AT_HUB)

    async def _ask(self, other_end: str, question: Mapping[str, object]) -> PartyAnswer:
        """Return the node's ``story`` and ``signature``, or why there is no answer (``unanswered``)."""
        session, member = self._node.engine.sessions.get(other_end), self._node.membership
        link = session.link if session is not None else None
        if member is not None and isinstance(link, CarriedLink):  # present at another instance
            passed_on = {"other": other_end, "question": question}
            reply = await member.store_questions.ask_life(link.life, STORY, passed_on, HUB)
            if reply.result is None:
                return {"node": other_end, "unanswered": shortened(reply.why, 300)}
            return self._answer(other_end, reply.result)
        try:
            answer = await self._node.parts.questions.ask(other_end, question)
        except SemqError as error:
            return {"node": other_end, "unanswered": str(error)}
        return self._answer(other_end, answer)

    def _answer(self, other_end: str, answer: Mapping[str, object]) -> PartyAnswer:
        result = answer.get("result") if answer.get("ok") else None
        if not isinstance(result, dict):
            return {"node": other_end, "unanswered": _error_text(answer.get("error"))}
        return {"node": other_end, "story": str(result.get("story")), "signature": str(result.get("signature"))}

    async def trace_all(self, arguments: TraceMessage) -> MessageTrace:
        """Return all ledger lines about one message, on request also those of its sender and receiver."""
        traced = await MessageReading(self._node).trace(arguments.id)
        return await self.with_parties(traced) if arguments.parties else traced

    async def with_parties(self, traced: MessageTrace) -> MessageTrace:
        """Add the ledger lines of sender and receiver."""
        hub, lk0 = str(self._node.address), parse_lk0(traced["lk0"])
        lines_of_all: list[TracedLine] = [{"node": hub, **event} for event in traced["events"]]
        parties = [str(lk0.node), *sorted(_targets(traced["events"]) - {str(lk0.node)})]
        answers = await asyncio.gather(*(self._ask(party, _about(lk0, hub, "hub")) for party in parties))
        unanswered: list[Unanswered] = []
        for answer in answers:
            try:
                if "unanswered" in answer:
                    raise ValueError(answer["unanswered"])
                # proved: the answer came over the node's own session
                lines = story.read(answer["story"].encode())
                lines_of_all += [{"node": answer["node"], "proved": True, **line} for line in lines]
            except (ValueError, msgspec.DecodeError, RecursionError) as error:
                unanswered.append({"node": answer["node"], "why": str(error)})
        return {**traced, "events": sorted(lines_of_all, key=lambda event: event["at"]), "unanswered": unanswered}


TRACE = (look("msg.trace", AccessRole.VIEWER, TraceMessage, AskService.trace_all),)


def _about(lk0: LK0, asker: str, nonce: str) -> dict[str, str]:
    """Return a question about a message for the node at its other end."""
    return {"lk0": str(lk0), "asker": asker, "nonce": nonce}


def _error_text(error: object) -> str:
    fields = error if isinstance(error, Mapping) else {}
    return shortened(f"{fields.get('code')} {fields.get('text')}", 300)


def _asker(session: SessionInfo) -> Address:
    """Return the institution of the session. Raises TokenRefused."""
    if session.user.startswith(TOKEN_USER_PREFIX):
        raise TokenRefused("A token is for enrolment only.")
    return parse_address(session.user)


def _targets(events: LedgerLines) -> set[str]:
    """Return the institutions for which the hub has forwarded or stored the message."""
    return {story.target_node(event) for event in events if event["event"] in EVENTS_NAMING_TARGET}
