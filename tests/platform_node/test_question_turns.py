"""Turns of askers."""

import asyncio
from typing import Any

import msgspec
import pytest

from local_node.link.answers import CONCURRENT_MAX as ANSWERED_MAX
from local_node.link.answers import PER_SECOND_MAX as ANSWERED_PER_SECOND_MAX
from platform_node import question_turns, questions
from platform_node.question_turns import WAITING_MAX, QuestionTurns, ShareUsed
from platform_node.questions import Questions
from semq.clock import SystemClock


class FrozenClock(SystemClock):
    now = 5.0

    def monotonic(self) -> float:
        return self.now


class Askers:
    """Askers whose turns end when the test ends them."""

    def __init__(self, turns: QuestionTurns) -> None:
        self._turns = turns
        self._ends: dict[str, asyncio.Event] = {}
        self.begun: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, *names: str) -> None:
        """Ask questions such as A1: the first letter names the asker."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._hold_turn(name))
        await run_tasks()

    async def _hold_turn(self, name: str) -> None:
        async with self._turns.turn(name[0]):
            self.begun.append(name)
            await self._ends[name].wait()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await run_tasks()

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)


async def run_tasks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_askers_take_turns_however_many_questions_one_of_them_has() -> None:
    asking = Askers(QuestionTurns(FrozenClock(), at_once=1))
    await asking.ask("A1", "A2", "A3", "A4", "B1", "C1", "C2")
    while len(asking.begun) < 7:
        await asking.end(asking.begun[-1])
    assert asking.begun == ["A1", "A2", "B1", "C1", "A3", "C2", "A4"]
    await asking.close()


async def test_only_the_asker_with_too_many_waiting_questions_is_refused() -> None:
    asking = Askers(QuestionTurns(FrozenClock(), at_once=1))
    await asking.ask("A0", *(f"A{n}" for n in range(1, WAITING_MAX + 1)))
    with pytest.raises(ShareUsed) as refused:
        async with asking._turns.turn("A"):
            pass
    assert refused.value.facts == {"asker": "A", "waiting": WAITING_MAX}
    await asking.ask("B1")
    await asking.end("A0")
    await asking.end("A1")
    assert "B1" in asking.begun
    await asking.close()


async def test_simultaneous_turns_are_limited_and_a_timed_out_asker_takes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(question_turns, "WAIT_S", 0.01)
    asking = Askers(QuestionTurns(FrozenClock(), at_once=2))
    await asking.ask("A1", "A2", "B1", "B2")
    assert asking.begun == ["A1", "A2"]
    with pytest.raises(ShareUsed):
        await asking.tasks["B1"]
    with pytest.raises(ShareUsed):
        await asking.tasks["B2"]
    await asking.end("A1")
    await asking.ask("C1")
    assert asking.begun == ["A1", "A2", "C1"]
    await asking.close()
    assert (asking._turns._under_way, asking._turns._waiting) == (0, {})


async def test_turns_per_second_are_limited() -> None:
    clock = FrozenClock()
    turns = QuestionTurns(clock, at_once=2, per_second=4)
    asking = Askers(turns)
    for name in ("A1", "A2", "A3"):
        await asking.ask(name)
        await asking.end(name)
    assert asking.begun == ["A1", "A2"]
    clock.now += 0.25
    turns._timer_ended()
    await run_tasks()
    assert asking.begun == ["A1", "A2", "A3"]
    await asking.close()


def test_a_node_answers_at_least_as_many_questions_as_its_hub_asks() -> None:
    assert questions.CONCURRENT_MAX <= ANSWERED_MAX
    assert questions.PER_SECOND_MAX + questions.CONCURRENT_MAX <= ANSWERED_PER_SECOND_MAX


async def test_a_flood_of_one_institution_does_not_delay_the_answers_of_others() -> None:
    asked: list[str] = []
    hub_questions = Questions(SystemClock())

    class Reader:
        def deliver(self, _tag: str, _key: str, header: Any, body: bytes, *_: Any) -> None:
            asker = msgspec.json.decode(body)["asker"]
            asked.append(asker)
            loop = asyncio.get_running_loop()
            loop.call_soon(hub_questions.note_answer, "1.56001", header.correlation_id, b'{"ok": true}')

    hub_questions.attach("1.56001", Reader())  # type: ignore[arg-type]
    refused = 0

    async def flood() -> None:
        nonlocal refused
        while True:
            try:
                await hub_questions.ask("1.56001", {"asker": "1.66666"})
            except ShareUsed:
                refused += 1
                await asyncio.sleep(0)

    floods = [asyncio.create_task(flood()) for _ in range(WAITING_MAX * 3)]
    await run_tasks()
    others = [f"1.1000{n}" for n in range(9)]
    answers = await asyncio.gather(*(hub_questions.ask("1.56001", {"asker": asker}) for asker in others))
    assert [answer["ok"] for answer in answers] == [True] * 9
    askers_until_last = asked[: max(map(asked.index, others)) + 1]
    # The flooding asker gets at most one turn for each turn of another asker.
    assert askers_until_last.count("1.66666") <= len(others) + questions.CONCURRENT_MAX + 1
    assert refused
    for task in floods:
        task.cancel()
    await asyncio.gather(*floods, return_exceptions=True)
