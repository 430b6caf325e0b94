"""Questions between the instances of a hub, over the carrier, and their answers.

``StoreQuestions`` passes all other messages of the carrier to the engine. A question is addressed to the incarnation
that serves a store, and has a number: a repeated question is answered once. If a question or reply is lost, the asker
gets NOT_HEARD; if the instance or the carrier is lost meanwhile, NOT_SERVED or NO_CARRIER. In all three cases the act
may have taken place.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog

from semq.engine.hub.carrier import Alive, Asking, Message, PresentSessions, Question, Reply, StoreName
from semq.errors import SemqError
from semq.service.admin import describe
from semq.service.errors import BadArguments, Busy
from semq.service.operations.operation import Caller

ANSWER_S = 6.0  # shorter than the time limits of clients that ask a node
CONCURRENT_MAX = 64  # answers in progress
LIVES_MAX = 1000  # remembered incarnations of askers
COMPRESSION = 1
NOT_SERVED = "no instance serves it"
NO_CARRIER = "the carrier is not reachable"
NOT_HEARD = f"no answer within {ANSWER_S:g} s"
TOO_LARGE = "its answer is too large; ask for fewer rows"
UNREADABLE = "its answer cannot be read"
Handler = Callable[[Mapping[str, object], Caller], Awaitable[object]]
log = structlog.get_logger("semq.cluster")


class StoreRefused(SemqError):
    """The refusal of another store, with code, remedy and facts."""

    def __init__(self, error: "RefusalText") -> None:
        super().__init__(error.text, **error.facts)
        self.code = error.code  # type: ignore[misc]
        self.remedy = error.remedy  # type: ignore[misc]


class StoreAnswer(NamedTuple):
    """The answer of one store: result, refusal, or why there is neither."""

    store: StoreName
    result: Any = None
    error: SemqError | None = None  #: the refusal
    unreached: str = ""

    @property
    def why(self) -> str:
        """Why there is no result."""
        return self.unreached or (f"{self.error.code} {self.error.text}" if self.error else "")


class EngineSide(Protocol):
    """The receiver of messages that are neither questions nor replies."""

    def is_new(self, life: int, number: int, *, to_front: bool) -> bool:
        """Whether the messages of a batch may be received."""

    def receive(self, life: int, message: Message) -> None:
        """Process a message of another instance."""

    def note_returned(self, store: StoreName, message: Message) -> None:
        """Note a returned message: no instance serves the store."""

    def note_ended(self, life: int) -> None:
        """Note that an incarnation has ended."""

    def note_joined(self) -> None:
        """Note that the carrier is joined."""

    def note_cut(self) -> None:
        """Note that the carrier is lost."""


class FrontPort(Protocol):
    """The part of the carrier that ``StoreQuestions`` uses."""

    is_joined: bool

    def to_front(self, life: int, message: Message) -> None:
        """Send to one incarnation of an instance."""


class StoreQuestions:
    """Questions and answers of one instance."""

    def __init__(self, carrier: FrontPort, answer_bytes_max: int) -> None:
        self.handlers: Mapping[str, Handler] = {}  #: by name: operations, and handlers of ``ask_exchange``
        self.serving: dict[StoreName, int] = {}  #: by store: the serving incarnation
        self._carrier = carrier
        self._answer_bytes_max = answer_bytes_max
        self._receiver: EngineSide
        self._last_number = 0
        #: by number of the question: the asked incarnation, and its answer
        self._waiting: dict[int, tuple[int, asyncio.Future[StoreAnswer]]] = {}
        self._last_of: dict[int, int] = {}  #: by incarnation: the number of its last question
        self._answering: set[asyncio.Task[None]] = set()

    def begin(self, receiver: EngineSide) -> None:
        self._receiver = receiver

    # --- questions of this instance
    async def ask(self, store: StoreName, operation: str, arguments: Mapping[str, object], user: str) -> StoreAnswer:
        """Ask the instance that serves another store. Raises nothing."""
        if not self._carrier.is_joined:
            return StoreAnswer(store, unreached=NO_CARRIER)
        life = self.serving.get(store)
        if life is None:
            return StoreAnswer(store, unreached=NOT_SERVED)
        return (await self.ask_life(life, operation, arguments, user))._replace(store=store)

    async def ask_life(self, life: int, operation: str, arguments: Mapping[str, object], user: str) -> StoreAnswer:
        """Ask an incarnation. The answer names no store. Raises nothing."""
        self._last_number += 1
        number = self._last_number
        answer: asyncio.Future[StoreAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = life, answer
        self._carrier.to_front(life, Question(number, operation, msgspec.json.encode(arguments), user))
        try:
            async with asyncio.timeout(ANSWER_S):
                return await answer
        except TimeoutError:
            return StoreAnswer((0, 0), unreached=NOT_HEARD)
        finally:
            del self._waiting[number]

    # --- between carrier and engine
    def is_new(self, life: int, number: int, *, to_front: bool) -> bool:
        return self._receiver.is_new(life, number, to_front=to_front)

    def receive(self, life: int, message: Message) -> None:
        """Handle questions and replies; pass on other messages."""
        if isinstance(message, Question):
            self._begin_answer(life, message)
        elif isinstance(message, Reply):
            waiting_life, answer = self._waiting.get(message.number, (0, None))
            if waiting_life == life and answer is not None and not answer.done():
                answer.set_result(_read(message.answer))
        else:
            if isinstance(message, Asking | Alive | PresentSessions):
                self.serving[message.store] = life
            self._receiver.receive(life, message)

    def note_returned(self, store: StoreName, message: Message) -> None:
        self._receiver.note_returned(store, message)

    def note_ended(self, life: int) -> None:
        self.serving = {store: serving for store, serving in self.serving.items() if serving != life}
        self._last_of.pop(life, None)
        self._fail_waiting(lambda asked_life: asked_life == life, NOT_SERVED)
        self._receiver.note_ended(life)

    def note_joined(self) -> None:
        self._receiver.note_joined()

    def note_cut(self) -> None:
        self.serving.clear()
        self._fail_waiting(lambda _: True, NO_CARRIER)
        self._receiver.note_cut()

    def _fail_waiting(self, concerns: Callable[[int], bool], why: str) -> None:
        for life, answer in self._waiting.values():
            if concerns(life) and not answer.done():
                answer.set_result(StoreAnswer((0, 0), unreached=why))

    # --- questions of other instances
    def _begin_answer(self, life: int, question: Question) -> None:
        if question.number <= self._last_of.get(life, 0):
            return  # a repetition
        self._last_of[life] = question.number
        while len(self._last_of) > LIVES_MAX:
            del self._last_of[next(iter(self._last_of))]
        task = asyncio.get_running_loop().create_task(self._answer(life, question))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, life: int, question: Question) -> None:
        packed = _pack(await self._answer_content(question))
        if len(packed) > self._answer_bytes_max:
            packed = _pack({"unreached": TOO_LARGE})
        self._carrier.to_front(life, Reply(question.number, packed))

    async def _answer_content(self, question: Question) -> dict[str, object]:
        handler = self.handlers.get(question.operation)
        try:
            if len(self._answering) > CONCURRENT_MAX:
                raise Busy(at_once=CONCURRENT_MAX)
            if handler is None:  # the asking instance has another version
                raise BadArguments("This instance has no such operation.", operation=question.operation[:80])
            arguments = msgspec.json.decode(question.arguments, type=dict[str, object])
            return {"result": await handler(arguments, Caller(question.user, door="instance"))}
        except SemqError as error:
            return {"error": describe(error)}
        except Exception:
            log.exception("question_failed", operation=question.operation)
            return {"error": describe(SemqError("The instance failed on this question; its log has the reason."))}


def as_received(value: object) -> object:
    """Return a result in the form in which it arrives from another instance."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=str))


def _pack(answer: Mapping[str, object]) -> bytes:
    return zlib.compress(msgspec.json.encode(answer, enc_hook=str), COMPRESSION)


class RefusalText(msgspec.Struct):
    """A refusal as ``describe`` returns it."""

    code: str
    text: str
    remedy: str
    facts: dict[str, str]
    retry: bool = False


class _PackedAnswer(msgspec.Struct):
    result: Any = None
    error: RefusalText | None = None
    unreached: str = ""


def _read(packed: bytes) -> StoreAnswer:
    """Read an answer. If it is unreadable or a temporary refusal, the store counts as unreached."""
    try:
        answer = msgspec.json.decode(zlib.decompress(packed), type=_PackedAnswer)
    except (zlib.error, ValueError, RecursionError):
        return StoreAnswer((0, 0), unreached=UNREADABLE)
    if (error := answer.error) is not None and error.retry:
        return StoreAnswer((0, 0), unreached=f"{error.code} {error.text}")
    return StoreAnswer((0, 0), answer.result, StoreRefused(error) if error else None, answer.unreached)
