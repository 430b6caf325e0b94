"""Speakers take turns of bounded size."""

import asyncio

import pytest

from semq.service import intake
from semq.service.intake import (
    FRAME_OVERHEAD_BYTES,
    FRAMES_PER_TURN,
    FRAMES_UNDER_WAY_MAX,
    PACKET_BYTES_UNDER_WAY_MAX,
    Intake,
)
from semq.store.unit import Unit
from semq.store.work import Work
from semq.transport.turn import Turn


class IntakeDesk:
    """An intake with the frames of each turn, and the posted work, which ``commit`` ends."""

    def __init__(self) -> None:
        self.turns: list[list[tuple[str, list[int]]]] = [[]]
        self.posted: list[Work] = []
        self.intake: Intake[str, int] = Intake(self._process, lambda work, later: self.posted.append(work), Turn())

    def _process(self, speaker: str, frames: list[int]) -> None:
        self.turns[-1].append((speaker, frames))

    def commit(self) -> None:
        posted, self.posted[:] = list(self.posted), []
        for work in posted:
            work.decide(Unit())
            work.finish()

    async def turn(self) -> list[tuple[str, list[int]]]:
        """Return the frames of the next turn."""
        self.turns.append([])
        for _ in range(3):
            await asyncio.sleep(0)
            if self.turns[-1]:
                break
        return self.turns[-1]

    def processed(self, speaker: str) -> list[int]:
        return [frame for turn in self.turns for source, frames in turn if source == speaker for frame in frames]


async def until_empty(desk: IntakeDesk) -> None:
    while desk.intake.waiting_bytes:
        await desk.turn()
        desk.commit()


async def test_a_flood_of_one_speaker_does_not_delay_another_speaker() -> None:
    desk = IntakeDesk()
    for n in range(10 * FRAMES_PER_TURN):
        desk.intake.put("flood", n, 10)
    for n in range(3):
        desk.intake.put("quiet", n, 10)
    first = await desk.turn()
    assert sum(len(frames) for _, frames in first) <= FRAMES_PER_TURN
    assert desk.processed("quiet") == [0, 1, 2]
    await until_empty(desk)
    assert desk.processed("flood") == list(range(10 * FRAMES_PER_TURN))
    assert max(sum(len(frames) for _, frames in turn) for turn in desk.turns) <= FRAMES_PER_TURN


async def test_a_large_frame_fills_a_turn_and_the_other_speaker_is_next() -> None:
    desk = IntakeDesk()
    for n in range(3):
        desk.intake.put("flood", n, intake.BYTES_PER_TURN)
    desk.intake.put("quiet", 0, 10)
    assert await desk.turn() == [("flood", [0])]
    assert await desk.turn() == [("quiet", [0]), ("flood", [1])]


async def test_frames_are_processed_only_up_to_the_limit_of_uncommitted_frames() -> None:
    desk = IntakeDesk()
    for n in range(2 * FRAMES_UNDER_WAY_MAX):
        desk.intake.put("flood", n, 10)
    while await desk.turn():
        pass
    assert len(desk.processed("flood")) == desk.intake.frames_under_way == FRAMES_UNDER_WAY_MAX
    desk.commit()
    assert desk.intake.frames_under_way == desk.intake.bytes_under_way == 0
    while await desk.turn():
        pass
    assert len(desk.processed("flood")) == 2 * FRAMES_UNDER_WAY_MAX


async def test_the_frames_of_a_paused_speaker_wait_and_delay_no_other_speaker() -> None:
    desk = IntakeDesk()
    desk.intake.pause("paused")
    desk.intake.put("paused", 0, 10)
    assert not desk.intake._is_scheduled
    desk.intake.put("other", 1, 10)
    assert await desk.turn() == [("other", [1])]
    assert await desk.turn() == []
    desk.intake.resume_all()
    assert await desk.turn() == [("paused", [0])]


async def test_frames_of_a_removed_speaker_are_processed_for_one_turn_at_most() -> None:
    desk = IntakeDesk()
    for n in range(2 * FRAMES_PER_TURN):
        desk.intake.put("gone", n, 10)
    desk.intake.put("there", 0, 10)
    unprocessed = desk.intake.finish("gone")
    assert desk.processed("gone") + unprocessed == list(range(2 * FRAMES_PER_TURN))
    assert len(unprocessed) == FRAMES_PER_TURN
    assert desk.intake.finish("nobody") == []
    assert desk.intake.waiting_bytes == 10 + FRAME_OVERHEAD_BYTES
    assert desk.intake.forget() == [0]
    assert desk.intake.waiting_bytes == 0
    assert await desk.turn() == []


async def test_frames_are_processed_after_a_failure_of_other_frames() -> None:
    desk = IntakeDesk()
    process = desk.intake._process

    def fail_for_one(speaker: str, frames: list[int]) -> None:
        if speaker == "failing":
            raise RuntimeError
        process(speaker, frames)

    desk.intake._process = fail_for_one
    desk.intake.put("failing", 0, 10)
    await desk.turn()
    desk.intake.put("other", 1, 10)
    await desk.turn()
    assert desk.processed("other") == [1]


async def test_failing_frames_free_their_memory() -> None:
    desk = IntakeDesk()

    def fail(speaker: str, frames: list[int]) -> None:
        raise RuntimeError

    desk.intake._process = fail
    desk.intake.put("one", 0, 10)
    with pytest.raises(RuntimeError):
        desk.intake.pass_on_turn()
    for work in desk.posted:
        work.abandon(RuntimeError())
    assert desk.intake.frames_under_way == 0


@pytest.mark.parametrize("records", [1, 300])
async def test_uncommitted_packets_of_one_speaker_are_bounded_by_their_bytes(records: int) -> None:
    """Each record of a packet is work for the store, which serves the speakers of other intakes, too."""
    desk = IntakeDesk()
    size = 150 * records
    for n in range(2_000):
        desk.intake.put("flood", n, size, is_packet=True)
    while await desk.turn():
        pass
    under_way = len(desk.processed("flood"))
    assert (under_way - 1) * (size + FRAME_OVERHEAD_BYTES) < PACKET_BYTES_UNDER_WAY_MAX
    assert under_way * (size + FRAME_OVERHEAD_BYTES) >= PACKET_BYTES_UNDER_WAY_MAX
    desk.intake.put("quiet", 0, size, is_packet=True)
    assert await desk.turn() == [("quiet", [0])]
    desk.commit()
    await until_empty(desk)
    assert desk.processed("flood") == list(range(2_000))
    assert desk.intake._packet_bytes_under_way == {}


async def test_documents_behind_uncommitted_packets_of_their_speaker_wait_and_keep_their_order() -> None:
    desk = IntakeDesk()
    desk.intake.put("one", 0, PACKET_BYTES_UNDER_WAY_MAX, is_packet=True)
    desk.intake.put("one", 1, 10)
    assert await desk.turn() == [("one", [0])]
    assert await desk.turn() == []
    assert desk.intake.finish("one") == [1]
    desk.intake.put("one", 2, 10)
    desk.commit()
    assert await desk.turn() == [("one", [2])]
