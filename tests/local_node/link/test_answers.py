"""Answers to partners' questions: rate, malformed questions, and nodes that cannot be asked."""

import asyncio
from typing import Any

import pytest

from local_node.link.answers import PER_SECOND_MAX, Answers
from platform_node.questions import NotAsked, Questions
from semq.amqp.errors import ConnectionForced
from semq.clock import SystemClock
from semq.umx_t.address import parse_address
from tests.clocks import ManualClock
from tests.service.inprocess import InProcess, linked
from tests.waiting import until


class AnsweringNode:
    """The part of a node that the answers use."""

    clock = ManualClock(5.0)
    address = parse_address("1.56001")


def test_the_number_of_questions_per_second_is_bounded() -> None:
    node: Any = AnsweringNode()
    answers = Answers(node)
    assert [answers._admit_question() for _ in range(PER_SECOND_MAX + 2)] == [True] * PER_SECOND_MAX + [False] * 2
    node.clock.now = 6.0
    assert answers._admit_question()


async def test_a_malformed_question_is_answered_with_an_error(inprocess: InProcess) -> None:
    hub = await inprocess.hub()
    node = await inprocess.local("56001", hub.port)
    await linked(node)
    await until(lambda: hub.parts.questions.has_reader("1.56001"))
    for question in ({}, {"lk0": 7, "asker": "1.10008"}, {"lk0": "nonsense", "asker": "1.10008"}):
        answer = await hub.parts.questions.ask("1.56001", question)
        assert not answer["ok"]
    hub.parts.questions.note_answer("1.10008", "1", b"{}")  # an answer of a node that was not asked has no effect


BROKEN = (b'{"lk0": "\xff"}', b'{"lk0": "\xc3', b"[" * 100_000)  # not UTF-8, truncated, too deep


@pytest.mark.parametrize("body", BROKEN, ids=("not-utf-8", "cut", "too-deep"))
async def test_a_question_that_cannot_be_read_is_answered(body: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Any] = []
    monkeypatch.setattr(
        "local_node.link.answers._answer", lambda channel, correlation_id, answer: received.append(answer)
    )
    node: Any = AnsweringNode()
    channel: Any = None
    await Answers(node)._answer_question(channel, "1", body)
    assert (received[0]["ok"], received[0]["error"]["code"]) == (False, "SEMQ-1001")


@pytest.mark.parametrize("body", BROKEN, ids=("not-utf-8", "cut", "too-deep"))
async def test_an_unreadable_answer_raises_not_asked(body: bytes) -> None:
    questions = Questions(SystemClock())

    class Reader:
        def deliver(self, *_: Any) -> None:
            questions.note_answer("1.56001", "1", body)

    questions.attach("1.56001", Reader())  # type: ignore[arg-type]
    with pytest.raises(NotAsked, match="cannot be read"):
        await questions.ask("1.56001", {})


async def test_an_absent_node_is_not_asked() -> None:
    with pytest.raises(NotAsked, match=r"1\.77001"):
        await Questions(SystemClock()).ask("1.77001", {})


async def test_a_link_ends_although_the_hub_has_not_answered_the_consume_of_questions(
    inprocess: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_listen(answers: Answers, client: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Answers, "listen", never_listen)
    hub = await inprocess.hub()
    node = await inprocess.local("56001", hub.port)
    await linked(node)
    first = node.parts.hub.link
    hub.parts.links.end_session_of("1.56001", ConnectionForced("for a test"))
    await until(lambda: node.parts.hub.link is not None and node.parts.hub.link is not first)
