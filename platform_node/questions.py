"""Questions of partners and of the hub to an institution's node, over the session of the node with the hub.

| object                       | used by                       | contents                                              |
|------------------------------|-------------------------------|-------------------------------------------------------|
| queue ``node.ADDRESS.asked`` | node with this address: reads | a question: JSON, with a correlation id; never stored |
| exchange ``semq.answer``     | all nodes: write              | the answer, with the correlation id of the question   |

A node of an older version does not read its queue and cannot be asked.
"""

import asyncio
from collections.abc import Mapping

import msgspec

from platform_node.question_turns import QuestionTurns
from semq.amqp.content import ContentHeader, Properties
from semq.amqp.errors import AccessRefused, AmqpError, ResourceLocked
from semq.broker.queues.queue import Disposition
from semq.broker.services import (
    CONFIRMED,
    OfferedMessage,
    ServiceConsumer,
    ServiceExchange,
    ServiceQueue,
    SessionInfo,
)
from semq.clock import Clock
from semq.errors import Unavailable
from semq.service.story import STORY_BYTES_MAX
from semq.umx_t.address import Address

ANSWER_EXCHANGE = "semq.answer"
PATIENCE_S = 3.0
CONCURRENT_MAX = 4  # open questions to one node
PER_SECOND_MAX = 16  # questions to one node; a node answers at most 20
ABSENT_TEXT = "The node is not online, or its version answers no questions."
# An answer contains the node's story as a text in JSON, which escapes it.
ANSWER_BYTES_MAX = 2 * STORY_BYTES_MAX


class NotAsked(Unavailable):
    """The node at the other end could not be asked."""

    code = "SEMQ-1280"
    remedy = "Ask again when the node is online; its own operator can read its ledger at any time (`semq msg trace`)."


class Questions:
    """The open questions, and the nodes that can be asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: dict[str, QuestionTurns] = {}  #: by node that is asked
        self._readers: dict[str, ServiceConsumer] = {}  #: by node: the consumer of its queue
        self._open: dict[str, tuple[str, asyncio.Future[bytes]]] = {}  #: by correlation id: asked node, its answer
        self._last_number = 0  #: the last correlation id

    def exchange(self) -> ServiceExchange:
        """Return the exchange for virtual host ``umx``."""
        return _AnswerExchange(self)

    def queue(self, node: Address) -> ServiceQueue:
        """Return the queue of an institution for virtual host ``umx``."""
        return _AskedQueue(self, str(node))

    async def ask(self, node: str, question: Mapping[str, object]) -> Mapping[str, object]:
        """Ask a node in the turn of the question's ``asker``; return the answer. Raises NotAsked, ShareUsed."""
        turns = self._turns.get(node)
        if turns is None:
            raise NotAsked(ABSENT_TEXT, node=node)
        async with turns.turn(str(question.get("asker"))):
            return await self._ask(node, question)

    async def _ask(self, node: str, question: Mapping[str, object]) -> Mapping[str, object]:
        reader = self._readers.get(node)
        if reader is None:
            raise NotAsked(ABSENT_TEXT, node=node)
        self._last_number += 1
        correlation_id, answer = str(self._last_number), asyncio.get_running_loop().create_future()
        self._open[correlation_id] = node, answer
        body = msgspec.json.encode(question)
        header = ContentHeader.build(
            len(body), Properties(content_type="application/json", correlation_id=correlation_id)
        )
        try:
            reader.deliver("", "asked", header, body, False, None)
            async with asyncio.timeout(PATIENCE_S):
                reply = msgspec.json.decode(await answer, type=dict[str, object])
        except TimeoutError:
            raise NotAsked(f"The node did not answer within {PATIENCE_S:.0f} s.", node=node) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise NotAsked("The answer of the node cannot be read.", node=node) from error
        finally:
            del self._open[correlation_id]
        return reply

    def note_answer(self, node: str, correlation_id: str, body: bytes) -> None:
        """Note an answer. It is dropped if the node was not asked."""
        asked, answer = self._open.get(correlation_id, ("", None))
        if answer is not None and asked == node and not answer.done():
            answer.set_result(body)

    def attach(self, node: str, reader: ServiceConsumer) -> None:
        self._readers[node] = reader
        self._turns[node] = QuestionTurns(self._clock, CONCURRENT_MAX, PER_SECOND_MAX)

    def detach(self, node: str, reader: ServiceConsumer) -> None:
        if self._readers.get(node) is reader:
            del self._readers[node], self._turns[node]

    def readers(self) -> list[str]:
        return list(self._readers)

    def has_reader(self, node: str) -> bool:
        return node in self._readers


class _AskedQueue(ServiceQueue):
    def __init__(self, questions: Questions, node: str) -> None:
        super().__init__(f"node.{node}.asked")
        self._questions = questions
        self._node = node

    def may_attach(self, session: SessionInfo, exclusive: bool) -> AmqpError | None:
        if session.user != self._node:
            return AccessRefused(f"queue '{self.name}' belongs to node {self._node}")
        return ResourceLocked(f"node {self._node} reads it already") if self._questions.has_reader(self._node) else None

    def attach(self, consumer: ServiceConsumer) -> None:
        self._questions.attach(self._node, consumer)

    def detach(self, consumer: ServiceConsumer) -> None:
        self._questions.detach(self._node, consumer)

    def resume(self, consumer: ServiceConsumer) -> None:
        """Do nothing: a question that cannot be delivered at once is not stored."""

    def settled(self, consumer: ServiceConsumer | None, tokens: list[object], disposition: Disposition) -> None:
        """Do nothing."""


class _AnswerExchange(ServiceExchange):
    __slots__ = ("_questions",)

    def __init__(self, questions: Questions) -> None:
        super().__init__(ANSWER_EXCHANGE, "x-answer", ANSWER_BYTES_MAX)
        self._questions = questions

    def publish(self, message: OfferedMessage) -> None:
        self._questions.note_answer(message.session.user, message.header.correlation_id or "", bytes(message.body))
        message.settle(CONFIRMED)
