"""The number of pieces under way: several over a link with a long delay, one if they wait for each other."""

import asyncio

from local_node.pieces.window import MEASURE_AGAIN, UNDER_WAY_MAX, PieceWindow


class SimulatedLink:
    """A link with a delay, to a node that processes one piece after the other."""

    def __init__(self, line_s: float, work_s: float) -> None:
        self.line_s, self.work_s = line_s, work_s
        self.sizes: list[int] = []

    async def carry(self, window: PieceWindow, pieces: int) -> None:
        """Send pieces, as many at once as the window allows."""
        while len(self.sizes) < pieces:
            count = int(window.size)
            alone = [await window.enter() for _ in range(count)]
            for position, is_alone in enumerate(alone, 1):
                window.leave(self.line_s + position * self.work_s, was_alone=is_alone)
            self.sizes += [count] * count


async def test_many_pieces_are_under_way_over_a_link_with_a_long_delay() -> None:
    link = SimulatedLink(0.1, 0.01)
    await link.carry(PieceWindow(lambda: True), 1000)
    assert sum(link.sizes) / len(link.sizes) > 0.8 * UNDER_WAY_MAX


async def test_few_pieces_are_under_way_if_they_wait_for_each_other() -> None:
    window, link = PieceWindow(lambda: True), SimulatedLink(0.001, 0.02)
    await SimulatedLink(0.1, 0.01).carry(window, 100)  # then the link changes
    await link.carry(window, 1000)
    assert max(link.sizes[MEASURE_AGAIN * 2 :]) <= 2
    assert sum(link.sizes) / len(link.sizes) < 2


async def test_a_waiting_sender_continues_when_a_piece_has_ended() -> None:
    window = PieceWindow(lambda: True)
    window.size = 1.0
    await window.enter()
    waiting = [asyncio.create_task(window.enter()) for _ in range(3)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    for ended in range(1, 4):
        window.leave()  # without a receipt: nothing is measured
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert (sum(task.done() for task in waiting), window.size) == (ended, 1.0)


async def test_a_cancelled_wait_does_not_count_as_a_piece_under_way() -> None:
    window = PieceWindow(lambda: True)
    window.size = 1.0
    await window.enter()
    first, second = asyncio.create_task(window.enter()), asyncio.create_task(window.enter())
    await asyncio.sleep(0)
    window.leave()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second
    assert window.under_way == 1


async def test_without_other_documents_pieces_may_wait_for_each_other() -> None:
    has_others = True
    window, link = PieceWindow(lambda: has_others), SimulatedLink(0.001, 0.02)
    await link.carry(window, 10)
    assert int(window.size) == 1
    has_others = False
    for _ in range(UNDER_WAY_MAX):
        await window.enter()
    waiting = asyncio.create_task(window.enter())
    await asyncio.sleep(0)
    assert not waiting.done()
    has_others = True
    for _ in range(UNDER_WAY_MAX - 1):
        window.leave()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    window.leave()
    await waiting
