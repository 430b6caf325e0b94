"""Bytes of memory or disk that requests share: reserved in order, in shares, released once, and never lost."""

import asyncio

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from semq.web.errors import BodiesFull
from semq.web.transport.bodies import ByteBudget, Reservation


async def test_a_reservation_waits_for_its_turn() -> None:
    budget = ByteBudget(10)
    first = await budget.reserve(8, "a")
    large, small = asyncio.create_task(budget.reserve(5, "b")), asyncio.create_task(budget.reserve(1, "c"))
    await asyncio.sleep(0)
    assert not large.done()
    assert not small.done()  # 2 bytes are free, but the larger reservation was first
    first.release()
    first.release()  # a second call has no effect
    (await large).release()
    (await small).release()
    assert budget._free == 10


async def test_a_cancelled_reservation_stays_cancelled_when_bytes_become_free_at_the_same_time() -> None:
    budget = ByteBudget(10)
    first = await budget.reserve(10, "a")
    waiting = asyncio.create_task(budget.reserve(5, "b"))
    await asyncio.sleep(0)
    waiting.cancel()
    first.release()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert budget._free == 10


async def test_a_reservation_grows_only_if_nobody_waits_and_enough_bytes_are_free() -> None:
    budget = ByteBudget(10)
    growing = Reservation(budget, "a")
    growing.change(4)
    first = await budget.reserve(4, "b")
    with pytest.raises(BodiesFull):
        growing.change(7)
    waiting = asyncio.create_task(budget.reserve(3, "c"))
    await asyncio.sleep(0)
    with pytest.raises(BodiesFull):
        growing.change(5)
    growing.change(3)
    (await waiting).release()
    first.release()
    growing.change(0)
    assert budget._free == 10


async def test_an_owner_gets_no_more_than_it_leaves_free_and_does_not_hold_up_others() -> None:
    budget = ByteBudget(100)
    reservations = [await budget.reserve(25, "a") for _ in range(2)]
    with pytest.raises(BodiesFull):
        budget.reserve_now(1, "a")
    waiting = asyncio.create_task(budget.reserve(25, "a"))
    await asyncio.sleep(0)
    other = await budget.reserve(50, "b")  # what it needs, at once
    reservations[0].release()
    await asyncio.sleep(0)
    assert not waiting.done()
    other.release()
    (await waiting).release()
    reservations[1].release()
    assert budget._free == 100


async def test_bodies_that_wait_for_more_bytes_keep_none_from_one_another() -> None:
    budget = ByteBudget(100)
    halves = [await budget.reserve(10, "a") for _ in range(5)]
    for whole in asyncio.as_completed([_grown_and_released(half, 40) for half in halves]):
        await whole
    assert budget._free == 100


async def _grown_and_released(reservation: Reservation, size: int) -> None:
    await reservation.wait_for(size)
    await asyncio.sleep(0)
    reservation.release()


class Shares(RuleBasedStateMachine):
    """Owners that take and release bytes in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.budget = ByteBudget(100)
        self.reservations: list[tuple[str, Reservation]] = []

    @rule(owner=st.sampled_from("abc"), size=st.integers(1, 60))
    def reserve(self, owner: str, size: int) -> None:
        owned = sum(reservation.size for name, reservation in self.reservations if name == owner)
        free = self.budget._free
        try:
            self.reservations.append((owner, self.budget.reserve_now(size, owner)))
        except BodiesFull:
            assert size > free or (owned and owned + size > free - size)
        else:
            assert size <= free
            assert not owned or owned + size <= free - size

    @rule(number=st.integers(0, 20), kept=st.integers(0, 60))
    def release(self, number: int, kept: int) -> None:
        if number < len(self.reservations):
            self.reservations[number][1].release(kept)

    @invariant()
    def no_byte_is_lost(self) -> None:
        assert self.budget._free == 100 - sum(reservation.size for _, reservation in self.reservations)


TestShares = Shares.TestCase
TestShares.settings = settings(max_examples=50, stateful_step_count=30, deadline=None)
