"""Bytes of memory or disk that requests share: reserved in order, released once, and never lost."""

import asyncio

import pytest

from semq.web.errors import BodiesFull
from semq.web.transport.bodies import ByteBudget


async def test_a_reservation_waits_for_its_turn() -> None:
    budget = ByteBudget(10)
    release = await budget.reserve(8)
    large, small = asyncio.create_task(budget.reserve(5)), asyncio.create_task(budget.reserve(1))
    await asyncio.sleep(0)
    assert not large.done()
    assert not small.done()  # 2 bytes are free, but the larger reservation was first
    release()
    release()  # a second call has no effect
    (await large)()
    (await small)()
    assert budget._free == 10


async def test_a_cancelled_reservation_stays_cancelled_when_bytes_become_free_at_the_same_time() -> None:
    budget = ByteBudget(10)
    release = await budget.reserve(10)
    waiting = asyncio.create_task(budget.reserve(5))
    await asyncio.sleep(0)
    waiting.cancel()
    release()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget._free == 10


async def test_a_reservation_grows_only_if_nobody_waits_and_enough_bytes_are_free() -> None:
    budget = ByteBudget(10)
    assert budget.change_now(0, 4) == 4
    for size in (11, 20):
        assert budget.change_now(4, size) == 10  # all bytes
        assert budget.change_now(10, 4) == 4
    release = await budget.reserve(5)
    with pytest.raises(BodiesFull):
        budget.change_now(4, 6)
    waiting = asyncio.create_task(budget.reserve(2))
    await asyncio.sleep(0)
    with pytest.raises(BodiesFull):
        budget.change_now(4, 5)
    assert budget.change_now(4, 3) == 3
    (await waiting)()
    release()
    assert budget.change_now(3, 0) == 0
    assert budget._free == 10
