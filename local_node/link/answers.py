"""Answers of a local node to questions about messages.

Partners ask through the hub, which passes their questions on by queue ``node.ADDRESS.asked``, or directly
(``partner_questions``). With ``hub.answer_partners = false`` these questions are refused. ``semq.service.story``
selects the lines that a partner may read (the story). The hub itself asks during a change of its authority.
"""

import asyncio
from collections.abc import Mapping

import msgspec
import structlog

from local_node.ports import OperatedLocalNode
from local_node.succession import SuccessionDuty, SuccessionQuestion
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AmqpError
from semq.amqp.events import Delivered
from semq.engine.errors import NotThere
from semq.engine.secrecy.sealing import KeyHolder
from semq.errors import BadInput, SemqError, Unavailable
from semq.service import exchanged, story
from semq.service.admin import describe
from semq.service.exchanged import ExchangedQuestion
from semq.service.story import PartyAnswer
from semq.store.views import messages
from semq.store.views.exchanged import page
from semq.transport.client import ClientLink
from semq.transport.client_channel import ClientChannel
from semq.umx_t.locator import parse_lk0

EXCHANGE = "semq.answer"
CONCURRENT_MAX = 4  # questions from the hub in progress; beyond this, direct questions are refused, too
PER_SECOND_MAX = 20  # questions of all askers together
BUSY = "The node already answers as many questions as it may."
log = structlog.get_logger("semq.answers")


class NotTold(BadInput):
    """This institution does not answer questions of partners about their documents."""

    code = "SEMQ-1281"
    remedy = "Ask its operator, or ask for hub.answer_partners = true there."


class PassedQuestion(msgspec.Struct):
    """A question passed on by the hub."""

    asker: str  #: according to the hub; the story is signed for this asker
    lk0: str = ""
    nonce: str = ""
    exchanged: ExchangedQuestion | None = None  #: the documents exchanged with the asker, instead of a story
    signature: str = ""  #: of the asker, with ``exchanged``
    authority: SuccessionQuestion | None = None  #: the hub's own question, about its authority


class Answers:
    """Answers questions that arrive on the sessions of the uplink, and questions that partners ask directly."""

    def __init__(self, node: OperatedLocalNode) -> None:
        self._node = node
        self._duty = SuccessionDuty(node)
        self._tasks: set[asyncio.Task[None]] = set()
        self._second = 0  #: the second of the clock in which the last question arrived
        self._questions_in_second = 0

    async def listen(self, client: ClientLink) -> None:
        """Read questions on a channel of its own: an older hub has no such queue and closes the channel."""
        channel = await client.open_channel()
        try:
            queue = f"node.{self._node.address}.asked"
            await channel.consume(queue, lambda batch: self._on_questions(channel, batch), no_ack=True)
        except AmqpError as error:
            log.info("hub_asks_nothing", error=str(error))

    def _on_questions(self, channel: ClientChannel, batch: list[Delivered]) -> None:
        for delivered in batch:
            correlation_id = delivered.header.correlation_id or ""
            if not self._admit_question():
                _answer(channel, correlation_id, {"ok": False, "error": describe(Unavailable(BUSY))})
                continue
            task = asyncio.get_running_loop().create_task(
                self._answer_question(channel, correlation_id, bytes(delivered.body))
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _admit_question(self) -> bool:
        """Count a question; return whether it may be answered now."""
        second = int(self._node.clock.monotonic())
        self._questions_in_second = self._questions_in_second + 1 if second == self._second else 1
        self._second = second
        return len(self._tasks) < CONCURRENT_MAX and self._questions_in_second <= PER_SECOND_MAX

    async def _answer_question(self, channel: ClientChannel, correlation_id: str, body: bytes) -> None:
        try:
            answer = {"ok": True, "result": await self._result(msgspec.json.decode(body, type=PassedQuestion))}
        except SemqError as error:
            answer = {"ok": False, "error": describe(error)}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            answer = {"ok": False, "error": describe(BadInput("The question cannot be read.", fault=str(error)))}
        _answer(channel, correlation_id, answer)

    async def _result(self, question: PassedQuestion) -> Mapping[str, object]:
        if question.authority is not None:
            return await self._duty.carry_out(question.authority)
        if question.exchanged is not None:
            asker, nonce = question.asker, question.nonce
            asked = exchanged.question_bytes(asker, str(self._node.address), nonce, question.exchanged)
            story.is_proved(self._keys, asker, asked, question.signature)
            return await self._page(question.exchanged, asker, nonce)
        link = self._node.parts.hub.link
        if link is None:
            raise NotThere(id=question.lk0)
        return await self._story(question.lk0, question.asker, question.nonce, str(link.peer))

    async def story(self, lk0: str, asker: str, nonce: str) -> PartyAnswer:
        """Return the story for a partner that asks directly. Raises BadLocator, NotThere, NotTold, Unavailable."""
        if not self._admit_question():
            raise Unavailable(BUSY)
        return await self._story(lk0, asker, nonce, "")

    async def exchanged_page(self, question: ExchangedQuestion, asker: str, nonce: str) -> PartyAnswer:
        """Return a page of exchanged documents for a partner that asks directly. Raises NotTold, Unavailable."""
        if not self._admit_question():
            raise Unavailable(BUSY)
        return await self._page(question, asker, nonce)

    async def _page(self, question: ExchangedQuestion, asker: str, nonce: str) -> PartyAnswer:
        self._check_willing()
        text = msgspec.json.encode(await self._node.store.execute(page, asker, question.since, question.place_in_store))
        return self._signed(exchanged.signed_bytes(str(self._node.address), asker, nonce, question, text), text)

    async def _story(self, locator: str, asker: str, nonce: str, hub: str) -> PartyAnswer:
        self._check_willing()
        lk0, own = str(parse_lk0(locator)), str(self._node.address)
        events = await self._node.store.execute(messages.trace, lk0)
        text = story.story_for(events, lk0, own, asker, hub)
        return self._signed(story.signed_bytes(own, asker, nonce, lk0, text), text)

    def _check_willing(self) -> None:
        section = self._node.settings.hub
        if section is not None and not section.answer_partners:
            raise NotTold

    def _signed(self, signed: bytes, text: bytes) -> PartyAnswer:
        return {"node": str(self._node.address), "story": text.decode(), "signature": story.sign(self._keys, signed)}

    @property
    def _keys(self) -> KeyHolder | None:
        return self._node.sealing.keys if self._node.sealing is not None else None


def _answer(channel: ClientChannel, correlation_id: str, answer: Mapping[str, object]) -> None:
    body = msgspec.json.encode(answer)
    properties = Properties(content_type="application/json", correlation_id=correlation_id)
    try:
        channel.publish(EXCHANGE, "", ContentHeader.build(len(body), properties), body)
    except SemqError as error:  # the session has ended, and the hub reports that to the asker
        log.info("not_answered", error=str(error))
