"""Questions over a carrier that loses messages, repeats them, or ends."""

import asyncio
import zlib
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from platform_node.all_stores import store_questions
from platform_node.all_stores.store_questions import StoreQuestions
from semq.engine.errors import NotThere
from semq.engine.hub.carrier import Alive, Message, Question, Reply, StoreName
from semq.service.operations.operation import Caller
from semq.store.postgres.errors import StoreUnavailable

ONE, TWO = 1, 2  # incarnations


class RecordingEngine:
    """An engine that records what reaches it."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def is_new(self, life: int, number: int, *, to_front: bool) -> bool:
        return True

    def receive(self, life: int, message: Message) -> None:
        self.seen.append(message)

    def note_returned(self, store: StoreName, message: Message) -> None:
        self.seen.append(store)

    def note_ended(self, life: int) -> None:
        self.seen.append(life)

    def note_joined(self) -> None:
        self.seen.append("joined")

    def note_cut(self) -> None:
        self.seen.append("cut")


class OneWayCarrier:
    """The carrier at one incarnation. ``copies``: how often each message arrives."""

    def __init__(self, life: int) -> None:
        self.is_joined = True
        self.life = life
        self.questions_of: dict[int, StoreQuestions] = {}  #: by incarnation
        self.copies = 1
        self.sent: list[Message] = []

    def to_front(self, life: int, message: Message) -> None:
        self.sent.append(message)
        for _ in range(self.copies):
            if life in self.questions_of:
                self.questions_of[life].receive(self.life, message)


class AskerAndAnswerer:
    """Two instances over one carrier; the first asks, the second answers."""

    def __init__(self, bytes_max: int = 10_000) -> None:
        self.carriers = OneWayCarrier(ONE), OneWayCarrier(TWO)
        self.asker, self.answerer = (StoreQuestions(carrier, bytes_max) for carrier in self.carriers)
        self.engines = RecordingEngine(), RecordingEngine()
        for questions, engine, carrier in zip((self.asker, self.answerer), self.engines, self.carriers, strict=True):
            questions.begin(engine)
            carrier.questions_of = {ONE: self.asker, TWO: self.answerer}
        self.asker.receive(TWO, Alive((2, 2), 0, 0))
        self.echoes = 0
        self.answerer.handlers = {"echo": self.echo, "fail": self.fail, "away": self.away, "break": self.break_}

    async def echo(self, arguments: Mapping[str, Any], caller: Caller) -> Any:
        self.echoes += 1
        return {**arguments, "user": caller.user, "door": caller.door}

    async def fail(self, arguments: Mapping[str, Any], caller: Caller) -> Any:
        raise NotThere(id="x")

    async def away(self, arguments: Mapping[str, Any], caller: Caller) -> Any:
        raise StoreUnavailable(fault="x")

    async def break_(self, arguments: Mapping[str, Any], caller: Caller) -> Any:
        raise ZeroDivisionError

    async def ask(self, operation: str, **arguments: Any) -> store_questions.StoreAnswer:
        return await self.asker.ask((2, 2), operation, arguments, "eva")


async def test_the_answering_instance_knows_the_user_who_asked() -> None:
    pair = AskerAndAnswerer()
    answer = await pair.ask("echo", n=3)
    assert answer == store_questions.StoreAnswer((2, 2), {"n": 3, "user": "eva", "door": "instance"})


async def test_other_messages_reach_the_engine() -> None:
    pair = AskerAndAnswerer()
    pair.asker.note_joined()
    pair.asker.note_returned((3, 3), Alive((3, 3), 0, 0))
    assert pair.engines[0].seen == [Alive((2, 2), 0, 0), "joined", (3, 3)]


async def test_a_repeated_question_is_answered_once() -> None:
    pair = AskerAndAnswerer()
    pair.carriers[0].copies = 2
    assert (await pair.ask("echo")).result is not None
    [question] = pair.carriers[0].sent
    pair.answerer.receive(ONE, question)
    assert (await pair.ask("echo")).result is not None
    assert pair.echoes == 2


async def test_refusals_and_unreachable_stores_are_reported() -> None:
    pair = AskerAndAnswerer()
    for operation, code in (("fail", NotThere.code), ("break", "SEMQ-1000"), ("unknown", "SEMQ-2102")):
        answer = await pair.ask(operation)
        assert answer.error is not None
        assert answer.error.code == code
        assert answer.why == f"{code} {answer.error.text}"
    assert (await pair.ask("away")).unreached.startswith(StoreUnavailable.code)
    assert (await pair.asker.ask((3, 3), "echo", {}, "eva")).unreached == store_questions.NOT_SERVED
    pair.carriers[0].is_joined = False
    assert (await pair.ask("echo")).unreached == store_questions.NO_CARRIER


@pytest.mark.parametrize(("ends", "why"), [("gone", store_questions.NOT_SERVED), ("cut", store_questions.NO_CARRIER)])
async def test_a_waiting_question_ends_with_the_instance_or_the_carrier(ends: str, why: str) -> None:
    pair = AskerAndAnswerer()
    pair.carriers[0].questions_of = {}
    waiting = asyncio.ensure_future(pair.ask("echo"))
    await asyncio.sleep(0)
    pair.asker.note_ended(TWO) if ends == "gone" else pair.asker.note_cut()
    assert (await waiting).unreached == why
    assert pair.asker.serving == {}


async def test_a_lost_question_ends_after_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_questions, "ANSWER_S", 0.01)
    pair = AskerAndAnswerer()
    pair.carriers[0].copies = 0
    assert (await pair.ask("echo")).unreached == store_questions.NOT_HEARD


async def test_a_reply_of_another_instance_is_ignored() -> None:
    pair = AskerAndAnswerer()
    pair.carriers[0].questions_of = {}
    waiting = asyncio.ensure_future(pair.ask("echo"))
    await asyncio.sleep(0)
    forged = zlib.compress(msgspec.json.encode({"result": "forged"}))
    pair.asker.receive(9, Reply(1, forged))
    pair.asker.receive(TWO, Reply(1, zlib.compress(msgspec.json.encode({"result": "right"}))))
    assert (await waiting).result == "right"
    pair.asker.receive(TWO, Reply(1, forged))  # after the answer


@pytest.mark.parametrize(
    "answer", [b"", b"no zlib", zlib.compress(b"\xff"), zlib.compress(b"[" * 100_000), zlib.compress(b'{"error":1}')]
)
async def test_an_answer_that_cannot_be_read_is_reported(answer: bytes) -> None:
    pair = AskerAndAnswerer()
    pair.carriers[0].questions_of = {}
    waiting = asyncio.ensure_future(pair.ask("echo"))
    await asyncio.sleep(0)
    pair.asker.receive(TWO, Reply(1, answer))
    assert (await waiting).unreached == store_questions.UNREADABLE


async def test_an_answer_that_is_too_large_is_reported() -> None:
    pair = AskerAndAnswerer(bytes_max=50)
    assert (await pair.ask("echo", text="".join(map(chr, range(33, 1000))))).unreached == store_questions.TOO_LARGE


async def test_the_number_of_answers_at_a_time_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_questions, "CONCURRENT_MAX", 0)
    pair = AskerAndAnswerer()
    assert (await pair.ask("echo")).unreached.startswith("SEMQ-2103")
    assert pair.echoes == 0


async def test_the_number_of_remembered_incarnations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_questions, "LIVES_MAX", 3)
    pair = AskerAndAnswerer()
    for life in range(10, 20):
        pair.answerer.receive(life, Question(1, "echo", b"{}", "eva"))
    assert len(pair.answerer._last_of) == 3
