"""Exchange ``semq.ask`` at a node with direct links: partners that dial the node ask about messages between both.

Questions and answers have the same form as at a hub (PROTOCOL.md section 20). A node can ask only partners that it
dials.
"""

import msgspec

from local_node.link.answers import Answers
from semq.broker.services import SessionInfo
from semq.broker.vhost import VirtualHost
from semq.service.admin import RequestExchange, typed
from semq.service.exchanged import ExchangedQuestion
from semq.service.story import AskAnswer

ASK_EXCHANGE = "semq.ask"
CONCURRENT_MAX = 4  # requests of one partner
REQUEST_BYTES_MAX = 4 * 1024
NONCE_MAX = 64  # characters


class DirectQuestion(msgspec.Struct, frozen=True):
    """A question of a partner; arguments of newer versions are ignored."""

    lk0: str
    nonce: str = ""


class DirectExchangedQuestion(ExchangedQuestion, frozen=True, kw_only=True):
    """A question which documents were exchanged with the partner."""

    nonce: str = ""


class PartnerQuestions:
    """The handler of ``semq.ask``."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def exchange(self, vhost: VirtualHost) -> RequestExchange:
        requests = {
            "trace": typed("trace", DirectQuestion, self.trace),
            "exchanged": typed("exchanged", DirectExchangedQuestion, self.exchanged),
        }
        return RequestExchange(ASK_EXCHANGE, vhost, requests, CONCURRENT_MAX, REQUEST_BYTES_MAX)

    async def trace(self, session: SessionInfo, question: DirectQuestion) -> AskAnswer:
        """Return this node's story of a message for the partner. Raises BadLocator, NotThere, NotTold, Unavailable."""
        story = await self._answers.story(question.lk0, session.user, question.nonce[:NONCE_MAX])
        return {"node": story["node"], "events": [], "other": story}

    async def exchanged(self, session: SessionInfo, question: DirectExchangedQuestion) -> AskAnswer:
        """Return documents exchanged with the partner. Raises NotTold, Unavailable."""
        return {"other": await self._answers.exchanged_page(question, session.user, question.nonce[:NONCE_MAX])}
