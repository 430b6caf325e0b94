"""Bytes of memory or disk that requests share: reserved in order, released once, and never lost."""

import asyncio

import pytest

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
