"""Turns of speakers: bounded, in rotation, and no faster than the store commits the work."""

import asyncio

import pytest

from semq.service import intake
from semq.service.intake import PIECE_BYTES, PIECES_PER_TURN, PIECES_UNDER_WAY, Intake
from semq.store.unit import Unit
from semq.store.work import Work
from semq.transport.turn import Turn


class IntakeDesk:
    """Receives the pieces of each turn; ``commit`` ends the posted work."""

    def __init__(self) -> None:
        self.turns: list[list[tuple[str, list[int]]]] = [[]]
        self.posted: list[Work] = []
        self.intake: Intake[str, int] = Intake(self._hear, lambda work, later: self.posted.append(work), Turn())

    def _hear(self, speaker: str, pieces: list[int]) -> None:
        self.turns[-1].append((speaker, pieces))

    def commit(self) -> None:
        posted, self.posted[:] = list(self.posted), []
        for work in posted:
            work.decide(Unit())
            work.committed()

    async def turn(self) -> list[tuple[str, list[int]]]:
        """Return the pieces of the next turn."""
        self.turns.append([])
        for _ in range(3):  # the hook, its flush, and the callback that begins the next turn
            await asyncio.sleep(0)
            if self.turns[-1]:
                break
        return self.turns[-1]

    def taken(self, speaker: str) -> list[int]:
        return [piece for turn in self.turns for who, pieces in turn if who == speaker for piece in pieces]


async def until_empty(desk: IntakeDesk) -> None:
    while desk.intake.waiting_bytes:
        await desk.turn()
        desk.commit()


async def test_a_flood_of_one_speaker_keeps_no_other_waiting() -> None:
    desk = IntakeDesk()
    for n in range(10 * PIECES_PER_TURN):
        desk.intake.put("flood", n, 10)
    for n in range(3):
        desk.intake.put("quiet", n, 10)
    first = await desk.turn()
    assert sum(len(pieces) for _, pieces in first) <= PIECES_PER_TURN
    assert desk.taken("quiet") == [0, 1, 2]  # in the first turn, although ten turns of the other one wait
    await until_empty(desk)
    assert desk.taken("flood") == list(range(10 * PIECES_PER_TURN))
    assert max(sum(len(pieces) for _, pieces in turn) for turn in desk.turns) <= PIECES_PER_TURN


async def test_large_pieces_go_alone() -> None:
    desk = IntakeDesk()
    for n in range(3):
        desk.intake.put("flood", n, intake.BYTES_PER_TURN)
    desk.intake.put("quiet", 0, 10)
    assert await desk.turn() == [("flood", [0])]
    assert await desk.turn() == [("quiet", [0]), ("flood", [1])]


async def test_no_more_pieces_are_taken_than_the_store_commits() -> None:
    desk = IntakeDesk()
    for n in range(2 * PIECES_UNDER_WAY):
        desk.intake.put("flood", n, 10)
    while await desk.turn():
        pass
    assert len(desk.taken("flood")) == desk.intake.pieces_under_way == PIECES_UNDER_WAY
    desk.commit()
    assert desk.intake.pieces_under_way == desk.intake.bytes_under_way == 0
    while await desk.turn():
        pass
    assert len(desk.taken("flood")) == 2 * PIECES_UNDER_WAY


async def test_a_speaker_that_is_held_keeps_its_pieces_and_no_other_waiting() -> None:
    desk = IntakeDesk()
    desk.intake.hold("held")
    desk.intake.put("held", 0, 10)
    assert not desk.intake._is_called  # no turn is scheduled without a waiting piece
    desk.intake.put("other", 1, 10)
    assert await desk.turn() == [("other", [1])]
    assert await desk.turn() == []
    desk.intake.release()
    assert await desk.turn() == [("held", [0])]


async def test_pieces_of_a_removed_speaker_are_processed_for_one_turn_at_most() -> None:
    desk = IntakeDesk()
    for n in range(2 * PIECES_PER_TURN):
        desk.intake.put("gone", n, 10)
    desk.intake.put("there", 0, 10)
    left = desk.intake.finish("gone")
    assert desk.taken("gone") + left == list(range(2 * PIECES_PER_TURN))
    assert len(left) == PIECES_PER_TURN
    assert desk.intake.finish("nobody") == []
    assert desk.intake.waiting_bytes == 10 + PIECE_BYTES
    assert desk.intake.forget() == [0]
    assert desk.intake.waiting_bytes == 0
    assert await desk.turn() == []


async def test_failing_pieces_free_their_memory() -> None:
    desk = IntakeDesk()

    def fail(speaker: str, pieces: list[int]) -> None:
        raise RuntimeError

    desk.intake._process = fail
    desk.intake.put("one", 0, 10)
    with pytest.raises(RuntimeError):
        desk.intake.turn()
    for work in desk.posted:
        work.failed(RuntimeError())
    assert desk.intake.pieces_under_way == 0
